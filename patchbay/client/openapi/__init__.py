"""HTTP APIs that OpenAPI or Swagger documents describe."""
