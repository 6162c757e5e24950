"""Chess in C++: a board, lc0's encodings, a loader of training chunks, and a search."""
