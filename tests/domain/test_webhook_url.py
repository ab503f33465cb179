"""Where webhooks may be sent: the table of bad URLs, and of addresses that are not public."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from penstock.domain.errors import InvalidInput
from penstock.domain.webhook.settings import WebhookSettings
from penstock.domain.webhook.url import address_allowed, check_url, networks, without_path

REFUSED_URLS = [
    # Numbers that resolvers read as 127.0.0.1.
    "https://0x7f000001/", "https://2130706433/", "https://0177.0.0.1/", "https://127.1/", "https://①②⑦.⓪.⓪.①/",
    "https://127。0。0。1/", "https://127.0.0.1./", "https://127.0.0.0x1/", "https://1.2.3.256/",
    # This host, and addresses written out.
    "https://localhost/", "https://localhost./", "https://LOCALHOST/", "https://a.localhost/", "https://[::1]/",
    "https://[::]/", "https://0.0.0.0/", "https://127.0.0.1/", "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:169.254.169.254]/", "https://169.254.169.254/latest/", "https://100.100.100.200/",
    "https://[fd00:ec2::254]/", "https://10.0.0.1/", "https://8.8.8.8/", "https://[2606:4700::1111]/",
    "https://[fe80::1%25eth0]/", "https://[fe80::1%eth0]/",
    # Other schemes.
    "http://example.com/", "ftp://example.com/", "file:///etc/passwd", "gopher://example.com/", "data:text/plain,x",
    "javascript:alert(1)", "unix:/run/x.sock", "//example.com/x", "example.com/x", "https:example.com", "",
    # Parts that must not be.
    "https://user:pass@example.com/", "https://user@example.com/", "https://@example.com/", "https://example.com/#x",
    "https://example.com/#", "https:///path", "https://", "https://:443/", "https://.example.com/", "https://a..b/",
    "https://exa%6dple.com/", "https://-a.example.com/", "https://a_b-.example.com/",
    # Ports.
    "https://example.com:0/", "https://example.com:22/", "https://example.com:25/", "https://example.com:6379/",
    "https://example.com:65536/", "https://example.com:-1/", "https://example.com:x/", "https://example.com:80/",
    # What parsers disagree about.
    "https://example.com\\@127.0.0.1/", "https://example.com\\x", "https://exam\tple.com/", "https://exam\nple.com/",
    "https://example.com/a b", " https://example.com/", "https://example.com/\r\nX: y", "https://example.com/\x00",
    "https://example.com/\x7f", "https://example.com/\u202e", "https://example.com/\u2028x", "https://exam\u00adple.com\u3000/",
    "https://[::1/", "https://::1/",
    # Sizes.
    "https://example.com/" + "a" * 2000, "https://" + "a" * 64 + ".com/", "https://" + ".".join(["ab"] * 100) + "/",
]  # fmt: skip


@pytest.mark.parametrize("url", REFUSED_URLS, ids=lambda url: repr(url)[:40])
def test_a_url_of_the_bad_list_is_refused_with_a_reason(url: str) -> None:
    with pytest.raises(InvalidInput, match=r"webhook's URL"):
        check_url(url)


@pytest.mark.parametrize(
    ("url", "host", "port", "path"),
    [
        ("https://example.com", "example.com", 443, "/"),
        ("HTTPS://EXAMPLE.com/A?b=c", "example.com", 443, "/A?b=c"),
        ("https://example.com.:8443/x", "example.com", 8443, "/x"),
        ("https://bücher.example/ä", "xn--bcher-kva.example", 443, "/%C3%A4"),
        ("https://xn--bcher-kva.example/%2F", "xn--bcher-kva.example", 443, "/%2F"),
        ("https://my_service.example/", "my_service.example", 443, "/"),
        ("https://1.example2.a1/", "1.example2.a1", 443, "/"),
    ],
)
def test_a_good_url_says_where_to_connect(url: str, host: str, port: int, path: str) -> None:
    target = check_url(url)

    assert (target.host, target.port, target.path, target.address) == (host, port, path, None)


def test_the_longest_url_fits_and_one_more_character_does_not() -> None:
    longest = "https://example.com/" + "a" * 1980
    assert check_url(longest).host == "example.com"

    with pytest.raises(InvalidInput):
        check_url(longest + "a")


def test_a_password_in_a_url_is_not_shown() -> None:
    with pytest.raises(InvalidInput) as refused:
        check_url("https://user:hunter2@example.com/")

    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://hooks.example", "https://hooks.example"),
        ("https://hooks.example/", "https://hooks.example/"),
        ("https://hooks.example:8443/services/T0/B0/secret", "https://hooks.example:8443/***"),
        ("https://hooks.example/?key=secret", "https://hooks.example/***"),
        ("https://ann:secret@hooks.example/#secret", "https://hooks.example/***"),
        ("https://[::1/secret", "***"),
    ],
)
def test_a_url_is_shown_without_what_may_be_secret(url: str, shown: str) -> None:
    assert without_path(url) == shown


def test_a_refused_url_is_named_without_its_path() -> None:
    with pytest.raises(InvalidInput, match=r"'https://10\.0\.0\.1/\*\*\*' cannot be a webhook's URL"):
        check_url("https://10.0.0.1/services/secret")


def test_each_origin_has_a_secret_of_its_own() -> None:
    settings = WebhookSettings(global_secret="whsec_" + "A" * 32)

    one = settings.secret_for("https://Hooks.example/a?b")

    assert one is not None
    assert one.startswith("whsec_")
    assert one == settings.secret_for("https://hooks.example:443/other") != settings.global_secret
    assert one != settings.secret_for("https://hooks.example:8443/a") != settings.secret_for("http://hooks.example/a")
    assert WebhookSettings().secret_for("https://hooks.example/") is None


def test_settings_allow_http_ports_and_networks_and_nothing_beside() -> None:
    settings = WebhookSettings(allow_http=True, ports=(443, 9000), allowed_networks=("127.0.0.0/8", "fd00::/8"))

    assert settings.check("http://127.0.0.1:9000/x").address == ip_address("127.0.0.1")
    assert settings.check("http://[fd00::1]:9000/").host == "fd00::1"
    assert settings.check("http://localhost/").port == 80
    for url in ("http://10.0.0.1:9000/", "http://8.8.8.8:9000/", "http://127.1:9000/", "http://example.com:8443/"):
        with pytest.raises(InvalidInput):
            settings.check(url)


@pytest.mark.parametrize(
    "text",
    [
        "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "100.127.255.255",
        "127.0.0.1", "127.255.255.254", "169.254.169.254", "169.254.170.2", "172.16.0.1", "172.31.255.255", "192.0.0.1",
        "192.0.2.1", "192.88.99.1", "192.168.0.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1",
        "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
        "::", "::1", "::2", "::127.0.0.1", "::10.0.0.1", "::ffff:127.0.0.1", "::ffff:169.254.169.254",
        "::ffff:10.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1", "64:ff9b:1::1",
        "100::1", "2001::1", "2001:0:808:808:0:0:80ff:fffe", "2001:0:7f00:1:0:0:f7f7:f7f7", "2001:10::1", "2001:db8::1",
        "2002:7f00:1::", "2002:a00:1::1", "2002:c0a8:1::", "3fff::1", "4000::1", "5f00::1", "fc00::1", "fd00:ec2::254",
        "fe80::1", "febf::1", "fec0::1", "ff02::1", "ff0e::1",
    ],
)  # fmt: skip
def test_an_address_that_is_not_public_is_refused(text: str) -> None:
    assert not address_allowed(ip_address(text))


@pytest.mark.parametrize(
    "text",
    [
        "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "172.15.255.255",
        "172.32.0.0", "192.0.1.1", "192.167.255.255", "198.17.255.255", "198.20.0.0", "223.255.255.255",
        "2606:4700:4700::1111", "2001:4860:4860::8888", "2a00:1450::1", "::ffff:8.8.8.8", "::8.8.8.8",
        "64:ff9b::808:808", "2002:808:808::1", "2001:0:808:808:0:0:f7f7:f7f7",
    ],
)  # fmt: skip
def test_a_public_address_is_allowed_however_it_is_wrapped(text: str) -> None:
    assert address_allowed(ip_address(text))


@pytest.mark.parametrize(
    "text", ["127.0.0.1", "::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "fd00::1"]
)
def test_an_allowed_network_opens_itself_and_no_other(text: str) -> None:
    allowed = networks(["127.0.0.0/8", "fd00::/8"])

    assert address_allowed(ip_address(text), allowed)
    assert not address_allowed(ip_address("10.0.0.1"), allowed)
    assert not address_allowed(ip_address("fc00::1"), allowed)


@pytest.mark.parametrize("text", ["127.0.0.1/8", "10.0.0.0/33", "everything", ""])
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="no network"):
        WebhookSettings(allowed_networks=(text,))
