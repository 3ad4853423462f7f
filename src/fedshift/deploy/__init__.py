"""Models out: the trained network of a run, its predictions, its export to formats that need no fedshift."""
