"""The HTTP face of the registry: routes that each read a request, call one verb, and encode its document."""
