"""docs/reference.md is what utils/reference writes, and nothing that it should describe can be without a description."""
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.server import ROOT, Server, under_test                                                 # noqa: E402

PROGRAM = os.path.join(ROOT, "utils", "reference")


def load():
    loader = importlib.machinery.SourceFileLoader("reference", PROGRAM)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("reference", loader))
    loader.exec_module(module)
    return module


@kelvin_only
class ReferenceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.reference = load()

    def missing(self, says, function, *arguments):
        with self.assertRaisesRegex(self.reference.Missing, says):
            function(*arguments)

    def test_the_file_is_what_the_program_has(self):
        done = subprocess.run([PROGRAM, "--check", under_test()], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_a_field_without_a_description(self):
        text = "# Stats\r\nkeyspace_hits:1\r\nbrand_new_field:2\r\n"
        seen = self.reference.fields_of(text)
        self.missing("no description.*Stats: brand_new_field", self.reference.check_fields, self.reference.field_descriptions(), seen)
        seen = self.reference.fields_of("# Tiering\r\ntier_new:1\r\n")
        self.missing("no description.*Tiering: tier_new", self.reference.check_fields, self.reference.field_descriptions(), seen)

    def test_a_description_without_a_field(self):
        described = self.reference.field_descriptions()
        described["Stats"].append((["field_of_the_past"], "it was"))
        self.missing("there is no field field_of_the_past", self.reference.check_fields, described, {"Stats": {"keyspace_hits"}})

    def test_names_that_differ_from_server_to_server(self):
        found = self.reference.fields_of("# Memory\r\nused_memory:1\r\nused_memory_human:1B\r\nodd_human:1\r\n# Keyspace\r\ndb0:keys=1\r\ndb11:keys=1\r\n"
                                         "# Errorstats\r\nerrorstat_ERR:count=1\r\n# Replication\r\nslave0:ip=1\r\nslave_priority:1\r\n")
        self.assertEqual(found, {"Memory": {"used_memory", "odd_human"}, "Keyspace": {"db<N>"}, "Errorstats": {"errorstat_<word>"},
                                 "Replication": {"slave<N>", "slave_priority"}})

    def test_directives_and_the_server_agree(self):
        with Server({"save": None, "appendonly": None}) as server, server.client() as client:
            reply = client.must("CONFIG", "GET", "*")
        config = {name.decode(): value.decode() for name, value in zip(reply[::2], reply[1::2])}
        if os.environ.get("KELVIN_OPTIONS"):
            self.skipTest("options change defaults")
        self.reference.directives(config)
        self.missing("config.def has tcp-backlog", self.reference.directives, {name: value for name, value in config.items() if name != "tcp-backlog"})
        self.missing("CONFIG GET has directives.*brand-new", self.reference.directives, {**config, "brand-new": "1"})
        self.missing("the default of timeout is 0 by config.def, 5", self.reference.directives, {**config, "timeout": "5"})

    def test_a_metric_without_a_help_text(self):
        page = "".join("# HELP %s It is.\n# TYPE %s gauge\n%s{b=\"c\",d=\"e\"} 1\n" % (name, name, name) for name in self.reference.GROUPS)
        lines = self.reference.metrics([page])
        self.assertIn("| `kelvin_keys` | gauge | b, d | It is. |", lines)
        self.assertIn("### Cold tier", lines)
        self.missing("nothing about kelvin_keys", self.reference.metrics, [page.replace("kelvin_keys It is.", "kelvin_keys ")])
        self.missing("groups begin.*kelvin_tier_state", self.reference.metrics, [page.replace("kelvin_tier_state", "kelvin_other")])


if __name__ == "__main__":
    main()
