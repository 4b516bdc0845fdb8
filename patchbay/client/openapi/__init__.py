"""HTTP APIs that are described by OpenAPI or Swagger documents."""
