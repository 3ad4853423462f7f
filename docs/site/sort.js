// Sorts a table by the column whose title is clicked; a second click reverses the order.
document.addEventListener("click", (event) => {
  const title = event.target.closest("article th");
  if (!title) return;
  const table = title.closest("table");
  const column = [...title.parentNode.children].indexOf(title);
  const value = (row) => {
    const text = row.children[column].textContent.trim();
    const number = parseFloat(text.replace(/,/g, "").replace("−", "-"));
    return [Number.isNaN(number), Number.isNaN(number) ? text : number];
  };
  const down = title.dataset.order !== "down";
  table.querySelectorAll("th").forEach((other) => delete other.dataset.order);
  title.dataset.order = down ? "down" : "up";
  const rows = [...table.tBodies[0].rows].map((row) => [value(row), row]);
  rows.sort(([[aWord, a]], [[bWord, b]]) => {
    if (aWord !== bWord) return aWord - bWord; // words and empty cells last
    return (a < b ? -1 : a > b ? 1 : 0) * (down === aWord ? 1 : -1);
  });
  table.tBodies[0].append(...rows.map(([, row]) => row));
});
