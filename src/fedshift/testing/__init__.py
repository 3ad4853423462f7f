"""For tests of methods, models and plug-ins: small federations and spies. No run imports it."""
