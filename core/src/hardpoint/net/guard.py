"""Judge a URL before it is fetched, and every address its name leads to before it is contacted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from hardpoint.errors import ExternalService, InvalidParameters, NotAuthorized
from hardpoint.net.address import Network, networks, refusal
from hardpoint.net.url import Url, parse_url


@attrs.frozen
class UrlGuard:
    """What may be fetched at all: https to public addresses, unless an operator says more.

    A guard looks at where a request goes. What it may do there is an `AllowList`'s business.
    """

    allow_http: bool = False
    """Whether plain http may be used."""
    allow_private: tuple[Network, ...] = attrs.field(default=(), converter=networks)
    """Networks that may be contacted although they are not public, such as `10.0.0.0/8`."""

    def check(self, url: str | Url) -> Url:
        """Judge all that can be known without resolving the name.

        Raises:
            InvalidParameters: When the URL cannot be read in exactly one way.
            NotAuthorized: When its scheme, name or address is refused; the message says which.
        """
        url = parse_url(url) if isinstance(url, str) else url
        if url.scheme != "https" and not (url.scheme == "http" and self.allow_http):
            raise NotAuthorized(
                f"only https URLs may be fetched, and this one is {url.scheme[:20]!r}",
                hint="use https, or have the operator allow http for this tool",
            )
        if url.is_address:
            self.check_addresses(url.host, (url.host,))
        elif url.host.split(".")[-1] == "localhost" and not self._permits_loopback():
            raise NotAuthorized(
                f"{url.host!r} is a name of this host and may not be fetched", hint=_PERMIT
            )
        return url

    def check_addresses(self, host: str, addresses: Iterable[str]) -> tuple[str, ...]:
        """Judge the addresses of a host; one bad address spoils the name.

        Returns:
            The addresses, each once, in a stable order with IPv4 first.

        Raises:
            NotAuthorized: When one of them may not be contacted.
            ExternalService: When there is none.
        """
        found = set(addresses)
        if not found:
            raise ExternalService(f"the name {host!r} has no address")
        for address in sorted(found):
            why = refusal(address, self.allow_private)
            if why is not None:
                leads = f"{host!r}" if address == host else f"{host!r} leads to {address}, which"
                raise NotAuthorized(f"{leads} is {why} and may not be contacted", hint=_PERMIT)
        return tuple(sorted(found, key=lambda address: (":" in address, address)))

    def _permits_loopback(self) -> bool:
        return any(network.is_loopback for network in self.allow_private)


_PERMIT = "only an operator can permit it, by listing the network in allow_private"


def parse_networks(listed: Sequence[str]) -> tuple[Network, ...]:
    """Read the networks of a configuration.

    Raises:
        InvalidParameters: For an entry that is no network.
    """
    try:
        return networks(listed)
    except ValueError as error:
        raise InvalidParameters(f"allow_private: {error}") from error
