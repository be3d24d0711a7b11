"""Small tasks and brute force that the tests share."""
