"""What goes over the wire, by noun: these models check requests and describe answers in the OpenAPI document."""
