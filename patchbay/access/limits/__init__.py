"""The limits of principals: their defaults, and what each principal uses of them."""
