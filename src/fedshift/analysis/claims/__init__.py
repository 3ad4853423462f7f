"""Claims: a paper's statements on how one method compares with others, in one comparison or many."""
