"""callgrind's output, and the rules by which functions count.

sample.callgrind was recorded by valgrind 3.19.0 of a toy of 100 lines with cordma's names (Clang 19, -O1 -fno-inline;
--toggle-collect='functions::counted_*' --separate-callers=12 --separate-recs=1): 4 idle passes, and 16 messages over a
ring that is refilled for every eighth.
"""
from __future__ import annotations

import re
import subprocess
import sys
import unittest
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCH))

from functions import callgrind, chains  # noqa: E402
from functions.callgrind import Node  # noqa: E402

SAMPLE = BENCH / "functions" / "sample.callgrind"
HEADING = "# callgrind format\nversion: 1\ncreator: callgrind-3.19.0\npositions: line\nevents: Ir\n\n"


def shown(way: chains.Way) -> list[tuple[int, str]]:
    return [(step.depth, step.name) for step in way.steps]


class Parsing(unittest.TestCase):
    def test_costs_and_calls_by_path(self):
        nodes = callgrind.parse(HEADING + "fl=(1) a.cpp\nfn=(1) main\n10 3\ncfn=(2) f()'main\ncalls=2 20\n12 50\n"
                                "+1 4\n\nfn=(2)\n20 7\n-5 5\n* 1\ncfn=(3) g()'f()'main\ncalls=4 +8\n* 9\n")
        self.assertEqual({path: (node.own, node.calls) for path, node in nodes.items()},
                         {("main",): (7, 0), ("main", "f()"): (13, 2), ("main", "f()", "g()"): (0, 4)})
        self.assertEqual(nodes["main", "f()"].line, 12)
        self.assertEqual(nodes["main", "f()", "g()"].line, 15)

    def test_several_positions_and_events(self):
        nodes = callgrind.parse("positions: instr line\nevents: Dr Ir\nfn=f()\n0x10 5 1 30\n+4 * 2\n+4 +1 2 3\n"
                                "cob=x\ncfi=y\ncfn=g()'f()\ncalls=1 0x80 7\n+2 * 9 9\n")
        self.assertEqual(nodes["f()",].own, 33)
        self.assertEqual((nodes["f()", "g()"].calls, nodes["f()", "g()"].line), (1, 6))

    def test_marks_of_recursion_and_jumps_are_left_out(self):
        nodes = callgrind.parse(HEADING + "fn=f()'2'f()'main\n1 1\njump=3 4\njcnd=1/2 7\n2 5\n")
        self.assertEqual(nodes, {("main", "f()", "f()"): Node(own=6)})

    def test_what_is_no_profile(self):
        for text in ("hello\n", "", HEADING + "fn=(7)\n", HEADING + "5 5\n", HEADING + "fn=f\ncalls=1 2\n3 4\n",
                     HEADING + "fn=f\n1 x\n"):
            with self.assertRaises(callgrind.FormatError, msg=text):
                callgrind.parse(text)

    def test_the_line_is_told(self):
        with self.assertRaisesRegex(callgrind.FormatError, "line 7 .*'what is this'"):
            callgrind.parse(HEADING + "what is this\n")


class Names(unittest.TestCase):
    FUNCTIONS = [
        ("cordma::reactor::turn()", "cordma::reactor::turn()"),
        ("bool cordma::operation<cordma::message_send, void>::await_suspend<a::b<c>>(std::coroutine_handle<a::b<c>>)",
         "cordma::operation<>::await_suspend<>(std::coroutine_handle<>)"),
        ("cordma::(anonymous namespace)::open(cordma::task<void>&) [clone .resume]",
         "cordma::(anonymous namespace)::open(cordma::task<>&)"),
        ("cordma::chain::operator bool() const", "cordma::chain::operator bool() const"),
        ("cordma::chain::operator()(int) const", "cordma::chain::operator()(int) const"),
        ("bool cordma::operator< <int>(cordma::key<int> const&, int)", "cordma::operator< <>(cordma::key<> const&, int)"),
        ("cordma::ring::operator->() const", "cordma::ring::operator->() const"),
        ("std::unique_ptr<cordma::a, std::default_delete<cordma::a> >::operator->() const",
         "std::unique_ptr<>::operator->() const"),
        ("void cordma::each<cordma::f(int)::{lambda(int)#1}>(int)", "cordma::each<>(int)"),
        ("cordma::f(int)::{lambda(int)#1}::operator()(int) const", "cordma::f(int)::{lambda(int)#1}::operator()(int) const"),
        ("non-virtual thunk to cordma::shm::pair::put(int)", "cordma::shm::pair::put(int)"),
        ("cordma::task<void> cordma::run<int>(int)", "cordma::run<>(int)"),
        ("sendmsg", "sendmsg"), ("send@@GLIBC_2.2.5", "send@@GLIBC_2.2.5"), ("(below main)", "(below main)"),
    ]

    def test_functions(self):
        for name, wanted in self.FUNCTIONS:
            self.assertEqual(callgrind.function_of(name), wanted, name)

    def test_names_without_parameters(self):
        for function, wanted in (("cordma::reactor::turn()", "cordma::reactor::turn"),
                                 ("cordma::(anonymous namespace)::open(int)", "cordma::(anonymous namespace)::open"),
                                 ("cordma::chain::operator()(int) const", "cordma::chain::operator()"),
                                 ("sendmsg", "sendmsg")):
            self.assertEqual(callgrind.qualified(function), wanted)

    def test_makers(self):
        for function, wanted in (("cordma::a::a(int)", True), ("cordma::a<>::a<>(int)", True), ("cordma::a::~a()", True),
                                 ("cordma::a::operator=(cordma::a&&)", True), ("cordma::a::b()", False),
                                 ("cordma::a::operator==(int)", False)):
            self.assertEqual(chains.is_maker(function), wanted, function)

    def test_writes(self):
        for transport, name in (("shm", "cordma::transport::shm::ring_writer::put"), ("tcp", "sendmsg"),
                                ("tcp", "__libc_send"), ("tcp", "send@@GLIBC_2.2.5"), ("verbs", "ibv_post_send"),
                                ("verbs", "stand_in::(anonymous namespace)::post_send")):
            self.assertRegex(name, re.compile(rf"\A(?:{chains.WRITES[transport].pattern})\Z"))
        for transport, name in (("shm", "cordma::transport::shm::ring_writer::payload"), ("tcp", "cordma::send"),
                                ("tcp", "recvmsg"), ("tcp", "writer"), ("verbs", "stand_in::post_recv")):
            self.assertIsNone(chains.WRITES[transport].fullmatch(name), name)


class Recorded(unittest.TestCase):
    def setUp(self):
        self.nodes = callgrind.parse(SAMPLE.read_text())
        self.out, self.back = chains.ways(self.nodes, "shm", 16)

    def test_the_way_out(self):
        self.assertEqual(shown(self.out), [
            (0, "Endpoint::tag_send"), (0, "operation<>::await_ready"), (1, "message_send::start"),
            (2, "message_path::put"), (3, "transport::shm::ring_writer::put")])
        self.assertEqual((self.out.functions, self.out.calls, self.out.deepest), (5, 5, 4))
        self.assertFalse(self.out.deferred)

    def test_the_way_back(self):
        self.assertEqual(shown(self.back), [
            (0, "reactor::turn"), (1, "reactor::poll"), (2, "reactor::deliver"), (1, "reactor::run_ready"),
            (0, "operation<>::await_resume"), (1, "message_receive::take")])
        self.assertEqual((self.back.functions, self.back.calls, self.back.deepest), (6, 6, 3))

    def test_what_is_rare_and_what_is_left_out(self):
        self.assertEqual([(step.name, step.calls) for step in self.out.rare],
                         [("transport::shm::ring_writer::refill", 0.125)])
        why = {o.function: o.why for o in self.out.left_out}
        self.assertIn("at most 10 instructions", why["cordma::message_path::open() const"])
        self.assertIn("constructs", why["cordma::message::message(long)"])
        self.assertEqual(why["std::operator&(std::memory_order, std::__memory_order_modifier)"], "not of cordma")

    def test_a_smaller_limit_counts_more(self):
        out, _ = chains.ways(self.nodes, "shm", 16, least=2)
        self.assertIn("message_path::open", [step.name for step in out.steps])

    def test_another_transport_s_write_is_not_there(self):
        with self.assertRaisesRegex(chains.NotFound, "nothing in the profile writes"):
            chains.ways(self.nodes, "tcp", 16)

    def test_the_report(self):
        text = chains.as_text("shm out", self.out, 4, True)
        self.assertIn("shm out: 5 functions (goal 4: not reached), 5.0 calls a message, 4 within each other", text)
        self.assertIn("cordma::message::message(long): constructs", text)
        self.assertIn("--all lists them", chains.as_text("shm out", self.out, 4, False))
        self.assertEqual(chains.as_json(self.out, 12)["chain"][0],
                         {"function": "cordma::Endpoint::tag_send(long)", "depth": 0, "calls": 1.0, "own": 10.0})

    def test_the_program(self):
        done = subprocess.run([sys.executable, "-B", BENCH / "count_functions.py", "--profile", SAMPLE, "--path", "shm",
                               "--messages", "16"], capture_output=True, text=True, check=True)
        self.assertIn("shm back: 6 functions (goal 14: reached)", done.stdout)
        done = subprocess.run([sys.executable, "-B", BENCH / "count_functions.py", "--profile", __file__, "--path",
                               "shm"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("shm: line 1 of the profile is not callgrind's", done.stderr)


class MadeUp(unittest.TestCase):
    """Trees that the sample lacks."""

    TURN = ("functions::counted_turn(int)", "cordma::reactor::turn()")
    ASK = (*TURN, "functions::ask() [clone .resume]")

    def tree(self, *paths: tuple[str, ...], line: int = 1) -> dict[tuple[str, ...], Node]:
        return {path[:k]: Node(own=200, calls=10, line=line) for path in paths for k in range(1, len(path) + 1)}

    def test_a_write_by_a_later_pass(self):
        nodes = self.tree((*self.ASK, "cordma::Endpoint::tag_send(int)", "cordma::queue()"),
                          (*self.TURN, "cordma::flush()", "sendmsg"), (*self.TURN, "cordma::other()"))
        out, _ = chains.ways(nodes, "tcp", 10)
        self.assertTrue(out.deferred)
        self.assertEqual(shown(out), [(0, "Endpoint::tag_send"), (1, "queue"), (0, "reactor::turn"), (1, "flush"),
                                      (2, "sendmsg")])
        self.assertEqual(out.functions, 4)

    def test_what_a_device_calls_is_not_on_the_way(self):
        nodes = self.tree((*self.ASK, "cordma::Endpoint::send(int)", "ibv_post_send", "cordma::not_this()"))
        out, _ = chains.ways(nodes, "verbs", 10)
        self.assertEqual(shown(out), [(0, "Endpoint::send"), (1, "ibv_post_send")])

    def test_what_an_idle_pass_does_too_is_not_on_the_way(self):
        idle = ("functions::counted_idle_turn(int)", "cordma::reactor::turn()")
        nodes = self.tree((*self.ASK, "cordma::Endpoint::send(int)", "sendmsg"), (*self.TURN, "cordma::timers()"),
                          (*self.TURN, "cordma::poll()", "cordma::arrived()"), (*idle, "cordma::timers()"),
                          (*idle, "cordma::poll()"))
        _, back = chains.ways(nodes, "tcp", 10)
        self.assertEqual(shown(back), [(0, "reactor::turn"), (1, "poll"), (2, "arrived")])

    def test_a_forwarder_of_what_counts_counts(self):
        nodes = self.tree((*self.ASK, "cordma::Endpoint::send(int)", "cordma::forward()", "std::invoke()",
                           "cordma::works()", "sendmsg"))
        nodes[(*self.ASK, "cordma::Endpoint::send(int)", "cordma::forward()")].own = 20
        out, _ = chains.ways(nodes, "tcp", 10)
        self.assertEqual([name for _, name in shown(out)], ["Endpoint::send", "forward", "works", "sendmsg"])

    def test_a_profile_without_messages(self):
        for nodes, why in (({}, "no calls of functions::counted_turn"), (self.tree(self.ASK), "call no Endpoint::send")):
            with self.assertRaisesRegex(chains.NotFound, why):
                chains.ways(nodes, "shm", 1)


if __name__ == "__main__":
    unittest.main()
