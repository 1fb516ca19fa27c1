"""What Prometheus is told. One registry per application; every label has few values."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: Seconds. A resolve takes a few milliseconds, an upload's chunk a second.
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}


class Metrics:
    """Counters of one application."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = self._counter("requests", "Requests answered.", "route", "method", "status")
        self.seconds = Histogram(
            "drafters_request_seconds",
            "Time from the request's first byte to the answer's last.",
            ("route", "method"),
            registry=self.registry,
            buckets=_BUCKETS,
        )
        self.in_flight = Gauge("drafters_requests_in_flight", "Requests being answered.", registry=self.registry)
        self.received = self._counter("received_bytes", "Bytes of request bodies.")
        self.sent = self._counter("sent_bytes", "Bytes of answers' bodies.")
        self.errors = self._counter("errors", "Answers that are problem documents.", "code")
        self.publications = self._counter("publications", "Publications that succeeded.", "outcome")
        self.resolutions = self._counter("resolutions", "References resolved or refused.", "decision")
        self.verdicts = self._counter("verdicts", "Checks asked for over HTTP.", "decision")
        self.auth_failures = self._counter("auth_failures", "Tokens that were not accepted.", "reason")
        #: Looked up once for each, since every request counts.
        self._answered: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"drafters_{name}", text, labels, registry=self.registry)

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one answer.

        Args:
            route: Template of the route, "" where none fits.
            method: HTTP method; one that no route takes counts as "other".
            status: HTTP status; 0 if the connection ended before one was sent.
            seconds: How long it took.
        """
        key = (route or "none", method if method in _METHODS else "other", status)
        found = self._answered.get(key)
        if found is None:
            found = self.requests.labels(key[0], key[1], str(status)), self.seconds.labels(key[0], key[1])
            self._answered[key] = found
        found[0].inc()
        found[1].observe(seconds)

    def text(self) -> bytes:
        """All of it in the text format of Prometheus."""
        return generate_latest(self.registry)
