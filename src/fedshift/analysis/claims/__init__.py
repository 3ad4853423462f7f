"""Claims: what a paper says of one method beside others, a comparison or many of them."""
