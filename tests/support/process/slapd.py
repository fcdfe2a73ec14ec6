"""OpenLDAP's server with a few people and groups, for one test."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.support.process.certificates import Certificates
from tests.support.process.waiting import wait_until

PROGRAM: Final = shutil.which("slapd", path="/usr/sbin:/usr/libexec:/usr/lib/openldap") or ""
SCHEMA: Final = Path("/etc/ldap/schema")
PEOPLE: Final = "ou=people,dc=shop"
GROUPS: Final = "ou=groups,dc=shop"
STOP_LIMIT_S: Final = 30

CONFIG: Final = """\
{includes}
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile {home}/pid
TLSCACertificateFile {authority}
TLSCertificateFile {certificate}
TLSCertificateKeyFile {key}
database mdb
suffix dc=shop
rootdn cn=root,dc=shop
rootpw root
directory {home}/data
access to attrs=userPassword by anonymous auth by * none
access to * by users read by * none
"""
PERSON: Final = """
dn: uid={name},{people}
objectClass: inetOrgPerson
uid: {name}
cn: {name}
sn: {name}
userPassword: secret
"""
GROUP: Final = """
dn: cn={name},{groups}
objectClass: groupOfNames
cn: {name}
member: uid={member},{people}
"""


class Slapd:
    """ldap, ldaps: its URLs."""

    def __init__(self, home: Path, certificates: Certificates) -> None:
        (home / "data").mkdir(parents=True)
        self._config = home / "slapd.conf"
        includes = "\n".join(f"include {SCHEMA}/{name}.schema" for name in ("core", "cosine", "inetorgperson"))
        self._config.write_text(
            CONFIG.format(
                includes=includes,
                home=home,
                authority=certificates.ca,
                certificate=certificates.gateway,
                key=certificates.gateway,
            )
        )
        text = "dn: dc=shop\nobjectClass: domain\ndc: shop\n"
        for unit in ("people", "groups"):
            text += f"\ndn: ou={unit},dc=shop\nobjectClass: organizationalUnit\nou: {unit}\n"
        for name in ("gateway", "ann", "olga", "nemo"):
            text += PERSON.format(name=name, people=PEOPLE)
        for name, member in (("shop", "ann"), ("ops", "olga")):
            text += GROUP.format(name=name, member=member, people=PEOPLE, groups=GROUPS)
        content = home / "content.ldif"
        content.write_text(text)
        subprocess.run([PROGRAM, "-T", "add", "-f", self._config, "-l", content], check=True, capture_output=True)
        ports = _free_ports(2)
        self.ldap, self.ldaps = f"ldap://127.0.0.1:{ports[0]}", f"ldaps://127.0.0.1:{ports[1]}"
        self._ports = ports
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [PROGRAM, "-d", "0", "-h", f"{self.ldap} {self.ldaps}", "-f", str(self._config)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda: all(map(_listens, self._ports)), "slapd")

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(STOP_LIMIT_S)
            self._process = None


@contextmanager
def running_slapd(home: Path, certificates: Certificates) -> Iterator[Slapd]:
    one = Slapd(home, certificates)
    one.start()
    try:
        yield one
    finally:
        one.stop()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
