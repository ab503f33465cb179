"""Addresses of stores with a password in them, right and wrong ones."""

from __future__ import annotations

PASSWORD = "hunter2secret"
ADDRESSES = {
    "keywords": f"host=localhost port=1 dbname=x user=u password={PASSWORD}",
    "quoted keywords": f"host=localhost password='{PASSWORD} x'",
    "keywords with spaces": f"host = localhost password = {PASSWORD}",
    "the password first": f"password={PASSWORD} host=localhost",
    "keywords before a URL": f"password={PASSWORD} postgresql://db/jobs",
    "a URL": f"postgresql://u:{PASSWORD}@localhost:1/db",
    "a parameter": f"postgresql://localhost:1/db?user=u&password={PASSWORD}",
    "a quoted parameter": f"postgresql://localhost:1/db?user=u&pass%77ord={PASSWORD}",
    "a parameter in capitals": f"postgresql://localhost:1/db?Password={PASSWORD}",
    "a parameter with a wrong name": f"postgresql://localhost:1/db?passwrd={PASSWORD}",
    "a parameter after a semicolon": f"postgresql://localhost:1/db?schema=a;password={PASSWORD}",
    "a parameter of a truth": f"postgresql://localhost:1/db?pooler=no;password={PASSWORD}",
    "a slash in the password": f"postgresql://u:a/{PASSWORD}@localhost:1/db",
    "an @ in the password": f"postgresql://u:a@{PASSWORD}@localhost:1/db",
    "a # and a ? in the password": f"postgresql://u:#{PASSWORD}?@localhost:1/db",
    "a percent sign in the password": f"postgresql://u:%{PASSWORD}@localhost:1/db",
    "no host": f"postgresql://u:{PASSWORD}",
    "another database": f"mysql://u:{PASSWORD}@localhost/db",
    "a driver": f"postgresql+psycopg://u:{PASSWORD}@localhost/db",
    "no slashes": f"postgresql:u:{PASSWORD}@localhost/db",
    "no colon": f"postgres//u:{PASSWORD}@localhost/db",
    "another language": f"jdbc:postgresql://localhost/db?user=u&password={PASSWORD}",
    "a parameter of a file": f"sqlite:///x.db?password={PASSWORD}",
    "keywords of a file": f"sqlite://host=a password={PASSWORD}",
    "a user of a file": f"sqlite://u:{PASSWORD}@host/x",
    "a broker": f"redis://:{PASSWORD}@localhost",
    "a space in front": f" postgresql://u:{PASSWORD}@localhost:1/db",
    "a scheme": f"password={PASSWORD}://x",
}
