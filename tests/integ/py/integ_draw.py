#!/usr/bin/python3
"""What hydractl draws, read by others' rules: the SVG is XML that fits its own frame with
colours that everybody can tell apart, the trace is what viewers of Chrome traces accept,
the page is whole and needs nothing from elsewhere."""
import html.parser
import json
import os
import random
import re
import subprocess
import tempfile
import time
import xml.etree.ElementTree as xml

import harness
from harness import BIN, check

SVG = "{http://www.w3.org/2000/svg}"
MAX_BYTES = 3 << 20
STEP_NS = 1  # traces count whole nanoseconds


def run(*words):
    done = subprocess.run([os.path.join(BIN, "hydractl"), *words], capture_output=True,
                          text=True, timeout=120)
    check("hydractl " + words[0] + " works", done.returncode == 0, done.stderr)
    return done.stderr


def number(text):
    return float(text)


# --- colours ---

def rgb(colour):
    return [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]


def linear(colour):
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
            for c in rgb(colour)]


def luminance(colour):
    r, g, b = linear(colour)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one, other):
    a, b = sorted((luminance(one), luminance(other)))
    return (b + 0.05) / (a + 0.05)


# Linear RGB as people see it who lack one kind of cone (Vienot, Brettel, Mollon 1999 for
# the first two; the third is a plain projection).
EYES = {
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no long cones": ((0.11238, 0.88762, 0), (0.11238, 0.88762, 0),
                      (0.00401, -0.00401, 1)),
    "no middle cones": ((0.29275, 0.70725, 0), (0.29275, 0.70725, 0),
                        (-0.02234, 0.02234, 1)),
    "no short cones": ((1, 0.1461, -0.1461), (0, 0.8591, 0.1409), (0, 0.8591, 0.1409)),
}


def lab(colour, eyes):
    seen = [max(0.0, sum(m * c for m, c in zip(row, linear(colour)))) for row in eyes]
    r, g, b = seen
    xyz = ((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505,
           0.2126 * r + 0.7152 * g + 0.0722 * b,
           (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089)
    f = [v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in xyz]
    return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])


def difference(one, other, eyes):
    return sum((a - b) ** 2 for a, b in zip(lab(one, eyes), lab(other, eyes))) ** 0.5


def fills(style):
    """Colours of the classes: {scheme: {class: colour}}."""
    light, dark = style.split("@media (prefers-color-scheme:dark)")
    rules = re.compile(r"\.?([a-z]+\d?)\{[^}]*?fill:(#[0-9a-f]{6})")
    found = {"light": dict(rules.findall(light))}
    found["dark"] = dict(found["light"], **dict(rules.findall(dark)))
    return found


def check_colours(style):
    for scheme, colour in fills(style).items():
        ground = colour["e"]
        for name in ("text", "dim"):
            check("%s is readable, %s" % (name, scheme),
                  contrast(colour[name], ground) >= 4.5,
                  contrast(colour[name], ground))
        for letter in "ld":
            scale = [colour["%s%d" % (letter, i)] for i in range(9)]
            for who, eyes in EYES.items():
                for i, one in enumerate(scale):
                    check("a cell is no empty one, %s, %s" % (scheme, who),
                          difference(one, ground, eyes) >= 8, (one, scheme))
                    for other in scale[i + 1:]:
                        check("%s colours differ, %s, %s" % (letter, scheme, who),
                              difference(one, other, eyes) >= 6,
                              (one, other, difference(one, other, eyes)))
        light = [luminance(colour["l%d" % i]) for i in range(9)]
        rise = light if scheme == "dark" else [-v for v in light]
        check("loads stand out more the further from the target, " + scheme,
              rise[:5] == sorted(rise[:5], reverse=True) and rise[4:] == sorted(rise[4:]),
              light)
        degrees = [luminance(colour["d%d" % i]) for i in range(9)]
        check("degrees get brighter, " + scheme, degrees == sorted(degrees), degrees)
        for a, b in (("k0", "k1"), ("k0", "b"), ("k1", "b")):
            check("the pipeline is told apart by brightness, " + scheme,
                  contrast(colour[a], colour[b]) >= 1.2, (a, b))


# --- SVG ---

def check_path(what, path, width, height):
    """Runs of cells, all inside the map; returns their area."""
    area = 0.0
    for x, y, w, h, back in re.findall(
            r"M([-\d.e+]+),([-\d.e+]+)h([-\d.e+]+)v([-\d.e+]+)h(-[\d.e+]+)z", path):
        x, y, w, h = map(number, (x, y, w, h))
        check(what + " lies in the map", -0.01 <= x and x + w <= width * 1.001 and
              -0.01 <= y and y + h <= height * 1.001, (x, y, w, h))
        check(what + " is closed", number(back) == -w)
        area += w * h
    check(what + " has nothing else",
          re.sub(r"M[-\d.,e+]+h[-\d.e+]+v[-\d.e+]+h[-\d.e+]+z", "", path) == "", path[:99])
    return area


def check_svg(text, plan):
    root = xml.fromstring(text)
    check("the root is svg", root.tag == SVG + "svg")
    _, _, width, height = map(number, root.get("viewBox").split())
    check("the size is the frame", number(root.get("width")) == width and
          number(root.get("height")) == height)
    check("it has a name and a description", root.find(SVG + "title").text and
          root.find(SVG + "desc").text)
    style = root.find(SVG + "style").text
    classes = set(re.findall(r"\.([a-z]+\d?)\{", style))
    for node in root.iter():
        if node.get("class"):
            check("class %s has a rule" % node.get("class"), node.get("class") in classes)
        if node.tag == SVG + "rect" and not node.get("width", "").endswith("%"):
            x, y, w, h = (number(node.get(k)) for k in ("x", "y", "width", "height"))
            check("a rectangle is inside the frame", 0 <= x and x + w <= width and
                  0 <= y and y + h <= height, (x, y, w, h, height))
        if node.tag == SVG + "text" and node.get("y"):
            check("a text is inside the frame", 0 < number(node.get("y")) < height,
                  node.attrib)
    for letter in "ld":
        frame = root.findall(SVG + "rect[@class='frame']")["ld".index(letter)]
        w, h = number(frame.get("width")), number(frame.get("height"))
        area = sum(check_path("a run of cells", path.get("d"), w, h)
                   for path in root.find(SVG + "g[@id='map-%s']" % letter)
                   if path.get("class") != "node")
        cells = plan["ranks"] * plan["num_microbatches"]
        want = w * h * (cells - plan["figures"]["empty_cells"]) / cells
        check("the map has every cell that is not empty", abs(area / want - 1) < 0.01,
              (area, want))
    texts = " ".join(node.text or "" for node in root.iter(SVG + "text"))
    for word in ("over 200 %", "empty", "over 128", "rank", "microbatch", "forward"):
        check("the legend says " + word, word in texts, texts)
    check_colours(style)


# --- trace ---

KNOWN = {  # phase: its fields, as the format's description has them
    "M": {"ph", "name", "pid", "tid", "args"},
    "X": {"ph", "name", "cat", "ts", "dur", "pid", "tid"},
    "s": {"ph", "name", "cat", "id", "ts", "pid", "tid"},
    "f": {"ph", "name", "cat", "id", "ts", "pid", "tid", "bp"},
}


def check_event(event):
    fields = KNOWN.get(event.get("ph"))
    check("a known phase", fields is not None, event)
    wanted = fields - ({"tid"} if event["ph"] == "M" else set())
    check("an event has its fields and no others",
          wanted <= set(event) <= fields, event)
    for name, kind in (("pid", int), ("tid", int), ("name", str), ("cat", str),
                       ("ts", (int, float)), ("dur", (int, float)), ("id", int),
                       ("args", dict)):
        if name in event:
            check("%s is a %s" % (name, kind), isinstance(event[name], kind) and
                  not isinstance(event[name], bool), event)
    check("times are not negative", event.get("ts", 0) >= 0 and event.get("dur", 0) >= 0,
          event)


def ns(us):
    return round(us * 1000)


def check_nesting(slices):
    """No two slices of a track overlap by a nanosecond: B/E pairs made of them nest."""
    for track, events in slices.items():
        end = 0
        for event in events:
            check("slices of a track follow each other", ns(event["ts"]) >= end,
                  (track, event))
            end = ns(event["ts"]) + ns(event["dur"])


def inside(slices, track, at_us):
    for event in slices[track]:
        if event["ts"] <= at_us <= event["ts"] + event["dur"]:
            return event
    return None


def check_flows(events, slices, plan):
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    n_flows = sum(1 for e in events if e["ph"] == "s")
    check("each flow has one start and one end", set(starts) == set(ends) and
          len(starts) == n_flows == sum(1 for e in events if e["ph"] == "f"))
    members = {}
    for key, start in starts.items():
        end = ends[key]
        check("flows end in the enclosing slice", end["bp"] == "e", end)
        check("a flow does not go back in time", end["ts"] >= start["ts"], (start, end))
        ends_of = [inside(slices, (e["pid"], e["tid"]), e["ts"]) for e in (start, end)]
        check("a flow joins two slices", None not in ends_of and
              start["tid"] != end["tid"], (start, end))
        parts = [re.match(r"(m\d+) \d+/(\d+) (of sequence .*)", s["name"]).groups()
                 for s in ends_of]
        check("a flow joins members of one group", parts[0] == parts[1], parts)
        members.setdefault(parts[0] + (start["tid"],), set()).add(end["tid"])
    groups = [g for m in plan["microbatches"] for g in m["groups"] if len(g["ranks"]) > 1]
    # The first stage runs a microbatch once for each of its model chunks.
    wanted = plan["input"]["vpp"] * sum(len(g["ranks"]) - 1 for g in groups)
    check("every group of several ranks has its flows", n_flows == wanted and
          len(members) == len(groups), (n_flows, wanted, len(members), len(groups)))


def check_trace(text, plan):
    root = json.loads(text)
    check("an object with traceEvents", set(root) ==
          {"displayTimeUnit", "otherData", "traceEvents"})
    events = root["traceEvents"]
    for event in events:
        check_event(event)
    n_stages = plan["input"]["pp"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events
             if e["name"] == "thread_name"}
    check("one track a rank and stage, each named", names ==
          {(s, r): "rank %d" % r for s in range(n_stages) for r in range(plan["ranks"])})
    check("stages are named", {e["pid"]: e["args"]["name"] for e in events
                               if e["name"] == "process_name"} ==
          {s: "stage %d" % s for s in range(n_stages)})
    slices = {track: [] for track in names}
    for event in events:
        if event["ph"] == "X":
            slices[(event["pid"], event["tid"])].append(event)
            check("a slice names its shard", re.match(
                r"m\d+ (\d+/\d+ of |fixed cost|)(sequence \d+|fixed cost|of the cell)",
                event["name"]), event["name"])
    check_nesting(slices)
    check_flows(events, slices, plan)
    step_us = 1e6 * plan["figures"]["step_s"]
    last_us = max(e["ts"] + e["dur"] for s in slices.values() for e in s)
    check("the last slice ends with the step", abs(last_us - step_us) < 0.01,
          (last_us, step_us))


# --- page ---

class Page(html.parser.HTMLParser):
    VOID = {"meta", "path", "rect"}

    def __init__(self):
        super().__init__()
        self.open = []
        self.links = []
        self.tables = 0

    def handle_starttag(self, tag, attributes):
        self.links += [v for k, v in attributes if k in ("src", "href", "xlink:href")]
        if tag == "table":
            self.tables += 1
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            check("tags close in order", self.open and self.open.pop() == tag, tag)


def check_page(text):
    page = Page()
    page.feed(text)
    page.close()
    check("every tag is closed", page.open == [], page.open)
    check("nothing from elsewhere", page.links == [] and "@import" not in text and
          "url(" not in text)
    check("a policy against anything else", "default-src 'none'" in text)
    check("a title, a language, tables with captions", "<title>" in text and
          'lang="en"' in text and page.tables == 2 and text.count("<caption>") == 2)


def draw(folder, name, words):
    plan = os.path.join(folder, "plan.json")
    run("plan", os.path.join(folder, name), "--out", plan, *words)
    with open(plan) as file:
        figures = json.load(file)
    for ending, judge in ((".svg", check_svg), (".trace.json", check_trace)):
        path = os.path.join(folder, "out" + ending)
        run("draw", plan, "-o", path)
        with open(path) as file:
            judge(file.read(), figures)
    run("draw", plan, "-o", os.path.join(folder, "out.html"))
    with open(os.path.join(folder, "out.html")) as file:
        check_page(file.read())


def large(folder):
    """512 ranks: the size is bounded, the time is shown."""
    plan = os.path.join(folder, "plan.json")
    path = os.path.join(folder, "large.svg")
    run("plan", os.path.join(folder, "large"), "--ranks", "512", "--pp", "8", "--cap",
        "16384", "--set", "microbatches=34", "--set", "effort=1", "--out", plan)
    begin = time.monotonic()
    run("draw", plan, "-o", path)
    print("512 ranks x 34 microbatches: %d KB, drawn in %.2f s" %
          (os.path.getsize(path) // 1024, time.monotonic() - begin))
    check("512 x 34 fits 3 MB", os.path.getsize(path) <= MAX_BYTES)
    with open(path) as svg, open(plan) as file:
        check_svg(svg.read(), json.load(file))
    told = run("draw", plan, "-o", os.path.join(folder, "large.trace.json"))
    check("stages that are left out are told", "--max-slices" in told, told)


def write_lengths(path, n, most):
    random.seed(7)
    with open(path, "w") as out:
        for _ in range(n):
            out.write("%d\n" % min(most, int(random.lognormvariate(7.2, 1.3)) + 1))


def main():
    with tempfile.TemporaryDirectory(prefix="hydra-draw-") as folder:
        write_lengths(os.path.join(folder, "small"), 150, 30000)
        write_lengths(os.path.join(folder, "large"), 4000, 131072)
        common = ["--ranks", "16", "--ranks-per-node", "4", "--cap", "4096"]
        draw(folder, "small", [*common, "--pp", "4"])
        draw(folder, "small", [*common, "--pp", "2", "--zero-bubble"])
        draw(folder, "small", [*common, "--pass", "forward", "--dp-barrier"])
        draw(folder, "small", [*common, "--pp", "2", "--vpp", "2", "--vpp-group", "2",
                               "--policy", "megatron"])
        for policy in ("dp-balanced", "static", "relax"):
            draw(folder, "small", [*common, "--policy", policy])
        large(folder)
    print("%d checks passed" % harness.n_checks)


if __name__ == "__main__":
    main()
