from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fedshift.common.formats import read_parquet

TABLE = pa.table({"metric": ["accuracy", "seconds", "loss", "seconds"], "value": [0.5, 1.0, 2.0, 3.0]})


def test_a_table_is_read_from_a_file_and_from_bytes(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(TABLE, path)
    assert read_parquet(path).equals(TABLE) and read_parquet(path.read_bytes()).equals(TABLE)
    seconds = read_parquet(path, columns=["value"], filters=pc.field("metric") == "seconds")
    assert seconds.to_pydict() == {"value": [1.0, 3.0]}
