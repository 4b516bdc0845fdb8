"""Host names and addresses of machines, as requests and settings write them."""
