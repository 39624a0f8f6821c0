# SPDX-License-Identifier: GPL-2.0-or-later
"""Certificates of a test server: its authority, the authority of clients, and their certificates.

Uses python3-cryptography. Keys are P-256: generating one takes a millisecond.
"""
import datetime
import ipaddress
import os

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
         "kubernetes.default.svc.cluster.local", "127.0.0.1", "::1", "10.96.0.1")
DAY = 86400


def _name(user, groups=()):
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, g) for g in groups]
    return x509.Name(parts + [x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _alt_names(names):
    out = []
    for n in names:
        try:
            out.append(x509.IPAddress(ipaddress.ip_address(n)))
        except ValueError:
            out.append(x509.DNSName(n))
    return x509.SubjectAlternativeName(out)


def _write(path, data, mode=0o644):
    """Replace a file at once: a reader sees the complete old or new content."""
    part = path + ".part"
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as f:
        f.write(data)
    os.rename(part, path)


def _pem_key(key):
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                             serialization.NoEncryption())


def _pem(cert):
    return cert.public_bytes(serialization.Encoding.PEM)


class Authority:
    """A certificate authority; `pem` is its certificate."""

    def __init__(self, name):
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.cert = self._sign(_name(name), self.key.public_key(), _name(name), -DAY, 3650 * DAY, [
            (x509.BasicConstraints(ca=True, path_length=0), True),
            (x509.KeyUsage(False, False, False, False, False, True, True, False, False), True),
            (x509.SubjectKeyIdentifier.from_public_key(self.key.public_key()), False)])
        self.pem = _pem(self.cert)

    def _sign(self, subject, public, issuer, begin, end, extensions):
        today = datetime.datetime.utcnow()
        builder = (x509.CertificateBuilder().subject_name(subject).issuer_name(issuer)
                   .public_key(public).serial_number(x509.random_serial_number())
                   .not_valid_before(today + datetime.timedelta(seconds=begin))
                   .not_valid_after(today + datetime.timedelta(seconds=end)))
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        return builder.sign(self.key, hashes.SHA256())

    def issue(self, path, user, groups=(), names=(), begin=-DAY, end=365 * DAY):
        """Write PATH.crt and PATH.key: for a server when `names` are given, else for a client.
        begin and end are seconds from now. Returns the serial number in hex."""
        key = ec.generate_private_key(ec.SECP256R1())
        usage = ExtendedKeyUsageOID.SERVER_AUTH if names else ExtendedKeyUsageOID.CLIENT_AUTH
        extensions = [
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (x509.KeyUsage(True, False, True, False, False, False, False, False, False), True),
            (x509.ExtendedKeyUsage([usage]), False),
            (x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), False)]
        if names:
            extensions.append((_alt_names(names), False))
        cert = self._sign(_name(user, groups), key.public_key(), self.cert.subject, begin, end,
                          extensions)
        _write(path + ".key", _pem_key(key), 0o600)
        _write(path + ".crt", _pem(cert))
        serial = "%X" % cert.serial_number
        return serial.rjust(len(serial) + len(serial) % 2, "0")     # as in ssl


class Certs:
    """All certificates of one server, in one folder:

    ca.crt                authority for clients; client-ca.crt  authority for the server
    server.crt, .key      of the server
    client.crt, .key      of a client, user system:kube-proxy
    """

    def __init__(self, directory, names=()):
        self.directory = directory
        self.names = NAMES + tuple(n for n in names if n not in NAMES)
        self.count = 0
        self.ca = Authority("kubernetes")
        self.client_ca = Authority("kubernetes-clients")
        _write(self.path("ca.crt"), self.ca.pem)
        _write(self.path("client-ca.crt"), self.client_ca.pem)
        self.serve()
        self.client("client")

    def path(self, name):
        return os.path.join(self.directory, name)

    def serve(self, names=None, begin=-DAY, end=365 * DAY):
        """Issue a new server certificate with the current authority."""
        self.ca.issue(self.path("server"), "kube-apiserver", names=names or self.names,
                      begin=begin, end=end)

    def replace_authority(self, publish=True):
        """Create a new authority and a server certificate issued by it. With publish=False, ca.crt
        keeps the old authority; the new one is only in ca-new.crt."""
        self.ca = Authority("kubernetes-%d" % self.count)
        self.count += 1
        _write(self.path("ca-new.crt"), self.ca.pem)
        if publish:
            _write(self.path("ca.crt"), self.ca.pem)
        self.serve()

    def client(self, name, user="system:kube-proxy", groups=("system:nodes",), begin=-DAY,
               end=365 * DAY, foreign=False):
        """Issue a client certificate NAME.crt, NAME.key. foreign: with an authority that the
        server does not trust.
        Returns {cert, key, serial}."""
        authority = Authority("nobody") if foreign else self.client_ca
        serial = authority.issue(self.path(name), user, groups=groups, begin=begin, end=end)
        return {"cert": self.path(name + ".crt"), "key": self.path(name + ".key"),
                "serial": serial}
