"""The server's own certificates."""

from __future__ import annotations

import dataclasses
import datetime as dt
import stat

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store

from kcp_py.options import Options
from kcp_py.serving import certificates
from kcp_py.serving.certificates import (
    LEAF_LIFETIME,
    CertificateError,
    admin_key_pair,
    certificate_names,
    ensure_certificates,
    load_certificates,
    needs_renewal,
    serving_names,
)

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
FILES = ("ca.crt", "ca.key", "apiserver.crt", "apiserver.key", "admin.crt", "admin.key")


def contents(options):
    return {name: (options.pki_directory / name).read_bytes() for name in FILES}


def changed(before, after):
    return {name for name in FILES if before[name] != after[name]}


def serving_certificate(options):
    return load_certificates(options.serving_cert_file)[0]


def test_the_first_start_makes_private_files(options):
    """Everything is there after the first call, directories 0700 and files 0600."""
    assert ensure_certificates(options, now=NOW)
    assert {path.name for path in options.pki_directory.iterdir()} == set(FILES)
    assert stat.S_IMODE(options.root_directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(options.pki_directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in options.pki_directory.iterdir()} == {0o600}


def test_what_is_made_verifies(options):
    """A strict X.509 verifier accepts the serving certificate for its names and the client certificate for a client."""
    ensure_certificates(options, now=NOW)
    builder = PolicyBuilder().store(Store(load_certificates(options.ca_file))).time(NOW)
    builder.build_server_verifier(x509.DNSName("localhost")).verify(serving_certificate(options), [])
    builder.build_server_verifier(x509.IPAddress(__import__("ipaddress").ip_address("127.0.0.1"))).verify(serving_certificate(options), [])
    with pytest.raises(x509.verification.VerificationError):
        builder.build_server_verifier(x509.DNSName("elsewhere")).verify(serving_certificate(options), [])


def test_the_administrator_is_kcp_admin_of_system_masters(options):
    """The client certificate says who kcp's administrator is, and may be used by clients only."""
    ensure_certificates(options, now=NOW)
    certificate = admin_key_pair(options).certificate
    assert certificate.subject.rfc4514_string() == "CN=kcp-admin,O=system:masters"
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH]


def test_later_starts_reuse(options):
    """While nothing is due, nothing is written."""
    ensure_certificates(options, now=NOW)
    before = contents(options)
    assert not ensure_certificates(options, now=NOW + LEAF_LIFETIME - 31 * DAY)
    assert contents(options) == before


def test_certificates_near_their_end_are_renewed_by_the_same_authority(options):
    """In the last 30 days the leaves are made anew; the authority stays, so clients need nothing new."""
    ensure_certificates(options, now=NOW)
    before = contents(options)
    later = NOW + LEAF_LIFETIME - 29 * DAY
    assert ensure_certificates(options, now=later)
    assert changed(before, contents(options)) == {"apiserver.crt", "apiserver.key", "admin.crt", "admin.key"}
    assert serving_certificate(options).not_valid_after_utc == later + LEAF_LIFETIME


def test_an_authority_near_its_end_keeps_its_key(options):
    """Copies of the old authority that clients hold verify what the renewed one issues."""
    ensure_certificates(options, now=NOW)
    old = load_certificates(options.ca_file)[0]
    later = old.not_valid_after_utc - 10 * DAY
    ensure_certificates(options, now=later)
    new = load_certificates(options.ca_file)[0]
    assert new.public_key() == old.public_key()
    assert new.not_valid_after_utc > old.not_valid_after_utc
    serving_certificate(options).verify_directly_issued_by(old)


def test_no_certificate_outlives_its_authority(options):
    """Shortly before the authority is renewed, leaves end with it."""
    ensure_certificates(options, now=NOW)
    end = load_certificates(options.ca_file)[0].not_valid_after_utc
    ensure_certificates(options, now=end - 200 * DAY)
    assert serving_certificate(options).not_valid_after_utc == end


@pytest.mark.parametrize(
    ("lifetime", "left", "due"),
    [
        (365 * DAY, 31 * DAY, False),
        (365 * DAY, 29 * DAY, True),
        (10 * DAY, 3 * DAY, False),
        (10 * DAY, 1 * DAY, True),
        (10 * DAY, -1 * DAY, True),
    ],
)
def test_short_lived_certificates_are_renewed_in_their_last_fifth(options, monkeypatch, lifetime, left, due):
    """Thirty days are right for a year; a certificate for days is renewed in proportion."""
    monkeypatch.setattr(certificates, "LEAF_LIFETIME", lifetime)
    monkeypatch.setattr(certificates, "CLOCK_SKEW", dt.timedelta())
    ensure_certificates(options, now=NOW)
    assert needs_renewal(serving_certificate(options), NOW + lifetime - left) is due


def test_names_of_the_serving_certificate(options):
    """It is for loopback, the bind address, the external name and the machine; unspecified addresses are not names."""
    assert serving_names(Options(bind_address="10.1.2.3", external_hostname="kcp.example"), "box") == (
        "localhost",
        "127.0.0.1",
        "::1",
        "10.1.2.3",
        "kcp.example",
        "box",
    )
    assert serving_names(Options(bind_address="0.0.0.0"), "not a name_") == ("localhost", "127.0.0.1", "::1")
    ensure_certificates(options, now=NOW)
    assert certificate_names(serving_certificate(options)) == set(serving_names(options))


def test_host_names_of_logical_clusters(options):
    """The certificate has one more name, which is every cluster's."""
    by_host = dataclasses.replace(options, external_hostname="kcp.example", cluster_hostnames=True)
    assert serving_names(by_host)[-1] == "*.kcp.example"
    ensure_certificates(by_host, now=NOW)
    assert {"kcp.example", "*.kcp.example"} < certificate_names(serving_certificate(by_host))
    assert not ensure_certificates(by_host, now=NOW)


def test_a_new_host_name_means_a_new_serving_certificate_only(options):
    """Another external name is issued at the next start; the administrator's credentials stay."""
    ensure_certificates(options, now=NOW)
    before = contents(options)
    renamed = dataclasses.replace(options, external_hostname="kcp.example")
    assert ensure_certificates(renamed, now=NOW)
    assert changed(before, contents(options)) == {"apiserver.crt", "apiserver.key"}
    assert "kcp.example" in certificate_names(serving_certificate(options))
    assert not ensure_certificates(options, now=NOW), "a name too many does no harm"


def test_another_authority_issues_anew(options):
    """An operator who brings another ca.crt and ca.key gets leaves that it has issued."""
    ensure_certificates(options, now=NOW)
    (options.ca_file).unlink()
    (options.pki_directory / "ca.key").unlink()
    ensure_certificates(options, now=NOW)
    authority = load_certificates(options.ca_file)[0]
    serving_certificate(options).verify_directly_issued_by(authority)
    admin_key_pair(options).certificate.verify_directly_issued_by(authority)


def test_given_files_are_not_touched(options, tmp_path):
    """With --tls-cert-file the server makes no serving certificate and never writes to the given one."""
    given = dataclasses.replace(options, tls_cert_file=tmp_path / "tls.crt", tls_private_key_file=tmp_path / "tls.key")
    ensure_certificates(given, now=NOW)
    assert not (options.pki_directory / "apiserver.crt").exists()
    assert not (tmp_path / "tls.crt").exists()


def test_a_renewal_cut_off_between_key_and_certificate_is_repeated(options):
    """After a crash with the new key and the old certificate, the pair is made again."""
    ensure_certificates(options, now=NOW)
    (options.pki_directory / "apiserver.key").write_bytes((options.pki_directory / "admin.key").read_bytes())
    assert ensure_certificates(options, now=NOW)
    assert not ensure_certificates(options, now=NOW)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("ca.crt", b"junk", "ca.crt: not a PEM certificate"),
        ("ca.key", b"junk", "ca.key: not a PEM private key"),
        ("apiserver.crt", b"", "apiserver.crt: not a PEM certificate"),
    ],
)
def test_unusable_files_are_named_and_left_alone(options, name, content, message):
    """A file that is not a certificate or key may be there by mistake: it is not overwritten."""
    ensure_certificates(options, now=NOW)
    (options.pki_directory / name).write_bytes(content)
    before = contents(options)
    with pytest.raises(CertificateError, match=message):
        ensure_certificates(options, now=NOW)
    assert contents(options) == before


def test_an_authority_with_a_foreign_key_is_refused(options):
    """ca.key must be the key of ca.crt: issuing with it would make certificates that are not trusted."""
    ensure_certificates(options, now=NOW)
    (options.pki_directory / "ca.key").write_bytes((options.pki_directory / "admin.key").read_bytes())
    with pytest.raises(CertificateError, match=r"ca\.key: not the key of ca\.crt"):
        ensure_certificates(options, now=NOW)


def test_a_given_certificate_that_ends_soon_is_found(options, tmp_path):
    """A certificate that the server cannot renew is named with its end once it is in its last part, and its own ones are never."""
    certificates.ensure_certificates(options, now=NOW)
    assert certificates.expiring_certificates(options, now=NOW) == []
    given = tmp_path / "given.crt"
    given.write_bytes(options.serving_cert_file.read_bytes())
    served = dataclasses.replace(options, tls_cert_file=given, tls_private_key_file=options.serving_key_file)
    (end,) = (one.not_valid_after_utc for one in certificates.load_certificates(given))
    later = end - dt.timedelta(days=29)
    assert certificates.expiring_certificates(served, now=later) == [(given, end)]


@pytest.mark.parametrize(("durable", "waits"), [(True, 12), (False, 0)])
def test_certificates_of_a_directory_that_is_removed_are_not_waited_for(options, monkeypatch, durable, waits):
    """Each of the six files is followed by its directory."""
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", synced.append)
    assert ensure_certificates(options, now=NOW, durable=durable)
    assert len(synced) == waits
    assert not ensure_certificates(options, now=NOW)
