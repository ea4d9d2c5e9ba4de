#!/usr/bin/python3
"""The inspection page in a real browser: what it shows of a live job, what-if, keyboard,
names for screen readers, contrast, dark and narrow windows, tokens, a lost daemon.

Pictures of every state go to $HYDRA_BUILD_DIR/tests/pictures, to be looked at.
"""
import json
import os
import random
import re
import signal
import tempfile
import time
import urllib.error
import urllib.request

from browser import ELEMENT, Browser, find_browser
from fleet import Agent, by_tokens
from harness import BUILD, SOURCE, WAIT_S, Daemon, Stubs, check

CSP = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
       "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
FILES = ("/", "/app.js", "/api.js", "/draw.js", "/text.js", "/whatif.js", "/style.css")
LIVE = ((900, 500, 120, 80, 300, 650), (700, 3000, 64, 64, 128, 900), (1200, 500))
READBACK = "willReadFrequently"  # advice about how this test reads pixels
SECRET = "a-secret-of-the-test"

# Everything a keyboard can reach and a mouse can use.
CONTROLS = ("a[href], button, input, select, textarea, summary, canvas[tabindex]")


def pictures(name):
    folder = os.path.join(BUILD, "tests", "pictures")
    os.makedirs(folder, exist_ok=True)
    return os.path.join(folder, name + ".png")


class Site:
    """The same endpoints, asked without a browser."""

    def __init__(self, port):
        self.base = "http://127.0.0.1:%d" % port
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def get(self, path, body=None, method=None):
        request = urllib.request.Request(self.base + path, data=body, method=method)
        try:
            with self.opener.open(request, timeout=WAIT_S) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()

    def call(self, name, **request):
        status, _, body = self.get("/api/" + name, json.dumps(request).encode())
        check(name + " answers", status == 200, body)
        return json.loads(body)


def headers(site):
    for path in FILES + ("/metrics", "/api/policies", "/nothing"):
        status, head, body = site.get(path)
        check(path + " is there", status == (404 if path == "/nothing" else 200), status)
        check(path + " has the strict policy", head["Content-Security-Policy"] == CSP)
        check(path + " is not guessed", head["X-Content-Type-Options"] == "nosniff")
        text = body.decode()
        check(path + " names no other host", not re.search(
            r"(https?:)?//[a-z0-9.-]+\.[a-z]{2,}", text.replace("www.w3.org", "")), path)
    html = site.get("/")[2].decode()
    check("no inline script or style", not re.search(r"<style|style=|\son[a-z]+=\"|<script>",
                                                     html))
    with open(os.path.join(SOURCE, "deploy", "README.md")) as file:
        documented = re.findall(r"\| `POST (/api/\w+)` \| `(\{.*?\})`[ ,]", file.read())
    check("the endpoints are documented", len(documented) == 7, documented)
    for path, request in documented:
        status, _, body = site.get(path, request.encode())
        check("the documented request of %s is understood" % path, status == 200 or
              (status == 404 and json.loads(body)["field"] == "job"), (status, body))
    for method in ("CloseJob", "OpenJob", "SubmitStep", "DrainNode", "ReadmitNode",
                   "SetCostModel"):
        check(method + " cannot be asked for", site.get("/api/" + method, b"{}")[0] == 404)


def ready(browser, url):
    browser.go(url)
    browser.wait("that it is ready", "return document.body.dataset.ready")


def quiet(browser, allowed=()):
    """Nothing on the console, no address but the daemon's."""
    browser.collect()
    bad = [m["message"] for m in browser.console
           if not any(re.search(a, m["message"]) for a in (*allowed, READBACK))]
    check("the console is quiet", bad == [], bad)
    strange = [u for u in browser.urls if not re.match(
        r"(http://127\.0\.0\.1:\d+/|about:blank|data:,|chrome://|chrome-|data:image/gif)", u)]
    check("no other host is asked", strange == [], strange)
    browser.console, browser.urls = [], []


# --- what everybody must be able to use ---

def names(browser):
    """Roles and names, as the browser hands them to a screen reader."""
    found = browser.ask("POST", "/elements", {"using": "css selector", "value": CONTROLS})
    seen = 0
    for reference in found:
        key = reference[ELEMENT]
        if not browser.ask("GET", "/element/%s/displayed" % key):
            continue
        seen += 1
        label = browser.ask("GET", "/element/%s/computedlabel" % key)
        role = browser.ask("GET", "/element/%s/computedrole" % key)
        check("every control has a name and a role", label.strip() and role not in
              ("generic", "none", ""), (label, role, browser.js(
                  "return arguments[0].outerHTML.slice(0, 120)", reference)))
    check("there are controls", seen >= 8, seen)
    problems = browser.js("""
        const out = [], id = (i) => document.getElementById(i);
        const visible = (e) => e.checkVisibility();
        for (const t of document.querySelectorAll('table')) {
          if (!visible(t)) { continue; }
          if (!t.caption || !t.caption.textContent.trim()) { out.push('no caption: ' + t.id); }
          if (!t.querySelector('th[scope]')) { out.push('no headers: ' + t.id); }
          for (const th of t.querySelectorAll('th')) { if (!th.scope) { out.push('th without scope: ' + t.id); } }
        }
        for (const c of document.querySelectorAll('canvas')) {
          if (!visible(c)) { continue; }
          const by = c.getAttribute('aria-labelledby');
          const name = c.getAttribute('aria-label') || (by && id(by).textContent);
          if (!name || name.trim().length < 10) { out.push('canvas without words: ' + c.id); }
        }
        const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
        if (new Set(ids).size !== ids.length) { out.push('an id twice'); }
        for (const e of document.querySelectorAll('[aria-labelledby],[aria-describedby],[for]')) {
          for (const a of ['aria-labelledby', 'aria-describedby', 'for']) {
            for (const i of (e.getAttribute(a) || '').split(' ')) { if (i && !id(i)) { out.push(a + ' of nothing: ' + i); } }
          }
        }
        if (document.querySelectorAll('h1').length !== 1) { out.push('not one h1'); }
        for (const l of ['header', 'nav', 'main']) { if (document.querySelectorAll(l).length !== 1) { out.push('not one ' + l); } }
        const levels = [...document.querySelectorAll('h1,h2,h3')].map((h) => Number(h.tagName[1]));
        levels.forEach((l, i) => { if (i > 0 && l > levels[i - 1] + 1) { out.push('a heading level is left out'); } });
        for (const s of document.querySelectorAll('section')) { if (!s.getAttribute('aria-labelledby')) { out.push('a section without name'); } }
        if (document.documentElement.lang !== 'en' || !document.title) { out.push('no language or title'); }
        if (!id('status').getAttribute('role')) { out.push('the status is not announced'); }
        return out;""")
    check("tables, pictures, headings and references are in order", problems == [],
          problems)


def contrast(browser, what):
    """Every text against what lies behind it: 4.5 to 1."""
    bad = browser.js("""
        const lum = (c) => { const f = c.slice(0, 3).map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
          return 0.2126 * f[0] + 0.7152 * f[1] + 0.0722 * f[2]; };
        const parse = (s) => { const m = s.match(/[\\d.]+/g).map(Number); return m.length === 3 ? [...m, 1] : m; };
        const ground = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3] === 1) { return c; } }
          return [255, 255, 255, 1]; };
        const out = [];
        const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        while (walk.nextNode()) {
          const e = walk.currentNode.parentElement;
          if (!walk.currentNode.textContent.trim() || !e.checkVisibility() || e.closest('[disabled], label:has(:disabled), noscript')) { continue; }
          const a = lum(parse(getComputedStyle(e).color)), b = lum(ground(e));
          const k = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
          if (k < 4.5) { out.push([e.textContent.slice(0, 40), k]); }
        }
        for (const e of document.querySelectorAll('input:not([type=radio]), select, textarea, form button')) {
          if (!e.checkVisibility() || e.disabled) { continue; }
          const s = getComputedStyle(e), a = lum(parse(s.borderTopColor)), b = lum(ground(e.parentElement));
          if ((Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 3) { out.push(['edge of ' + e.id]); }
        }
        return out;""")
    check("texts can be read, " + what, bad == [], bad)


def keyboard(browser):
    """Everything by Tab, in the order of the page, always visible where one is."""
    browser.press("tab")  # from here on the browser shows where the focus is
    browser.js("scrollTo(0, 0); document.querySelector('a.skip').focus()")
    want = browser.js("""
        const all = [...document.querySelectorAll(arguments[0])].filter((e) => e.checkVisibility() && !e.disabled && e.tabIndex >= 0);
        const radios = all.filter((e) => e.type === 'radio');
        return all.filter((e) => e.type !== 'radio' || e.checked || !radios.some((r) => r.checked))
          .map((e) => e.id || e.textContent);""", CONTROLS)
    got = []
    for i in range(len(want)):
        if i > 0:
            browser.press("tab")
        name, seen = browser.js("""
            const e = document.activeElement, s = getComputedStyle(e);
            return [e.id || e.textContent, s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 1];""")
        check("the focus can be seen on " + name[:40], seen)
        got.append(name)
    check("Tab reaches everything in order", got == want, (got, want))


def looks(browser, name):
    browser.js("scrollTo(0, 0)")
    browser.dark(False)
    browser.picture(pictures(name + "-light"))
    contrast(browser, name + ", light")
    before = browser.js("return getComputedStyle(document.body).backgroundColor")
    browser.dark(True)
    browser.wait("a dark ground", "return getComputedStyle(document.body)"
                 ".backgroundColor !== arguments[0]", before)
    browser.picture(pictures(name + "-dark"))
    contrast(browser, name + ", dark")
    browser.dark(False)


def narrow(browser, name):
    browser.size(360, 780)
    browser.wait("that nothing sticks out",
                 "return document.documentElement.scrollWidth <= 360")
    browser.wait("pictures that fit", "return [...document.querySelectorAll('canvas')]"
                 ".every((c) => !c.checkVisibility() || c.getBoundingClientRect().right <= 361)")
    browser.picture(pictures(name + "-narrow"))
    browser.size(1280, 900)
    browser.wait("the wide page again", "return document.getElementById('map')"
                 ".clientWidth === 0 || innerWidth === 1280")


# --- what it shows ---

def pick(browser, css, text):
    browser.wait(text + " in " + css, """
        const b = [...document.querySelectorAll(arguments[0] + ' button')].find((b) => b.firstChild.textContent === arguments[1]);
        if (b) { b.click(); }
        return b && true;""", css, text)


def empty(browser, site):
    ready(browser, site.base + "/")
    text = browser.text("body")
    for part in ("No jobs yet", "hydractl job open", "its plan is shown here",
                 "Agents of a job appear here"):
        check("an empty daemon says '%s'" % part, part in text, text)
    names(browser)
    looks(browser, "empty")
    narrow(browser, "empty")
    quiet(browser)


def open_live(stubs, service):
    job = stubs.job("live")
    job.run = stubs.scheduler.RUN_AGENTS
    job.pool.ranks, job.pool.ranks_per_node = 8, 4
    job.wait_members_s = WAIT_S
    service.OpenJob(stubs.scheduler.OpenJobRequest(spec=job), timeout=WAIT_S)


def submit(stubs, service, step, lengths):
    request = stubs.step("live", step, lengths)
    request.wait = stubs.scheduler.STEP_DONE
    return service.SubmitStep(request, timeout=WAIT_S)


def live(browser, site, stubs, service, channel):
    """A job that opens, gets members and runs steps while the page is open."""
    open_live(stubs, service)
    browser.wait("the new job", "return /live/.test(document.getElementById('jobs').innerText)")
    browser.wait("what to do about agents", "return /hydra-worker --connect ADDRESS --job live/"
                 ".test(document.getElementById('members-empty').innerText)")
    check("what to do about steps", "hydractl submit live" in browser.text("#steps-empty"))
    agents = [Agent(stubs, channel, "live", node, 4, by_tokens) for node in ("a", "b")]
    submit(stubs, service, 0, LIVE[0])
    browser.wait("the step without a reload",
                 "return /Step 0\\s*done/.test(document.getElementById('steps').innerText)")
    browser.wait("its plan", "return document.getElementById('plan-title').innerText === 'Plan of live, step 0'")
    members = browser.wait("members", "return document.getElementById('members').checkVisibility() && document.getElementById('members').innerText")
    check("both agents, their ranks and epoch", re.search(r"a\s+0–3\s+\w+\s+1\s+cpu\s+ucx", members) and
          re.search(r"b\s+4–7\s+\w+\s+1", members) and "8 of 8 ranks in epoch 1" in members, members)
    for step in (1, 2):
        submit(stubs, service, step, LIVE[step])
    browser.wait("three steps", "return document.querySelectorAll('#steps button').length === 3")
    pick(browser, "#steps", "Step 1")
    browser.wait("step 1", "return document.getElementById('plan-title').innerText.endsWith('step 1') && /Measured/.test(document.getElementById('ranks-caption').innerText)")
    return agents


def figures_agree(browser, site):
    """What the page says is what the endpoints say."""
    step = site.call("ListSteps", job="live", from_step="1", limit=1, include_cells=True)["steps"][0]
    plan = site.call("GetPlan", job="live", step="1")["messages"][0]["plan"]
    text = browser.text("#figures")
    check("the balance, predicted and measured", "predicted %.3f, measured %.3f" % (
        step["figures"]["balance"], step["report"]["measured_balance_cells"]) in text, text)
    check("the fingerprint", "%016x" % int(plan["fingerprint"]) in text, text)
    sums = [0.0] * 8
    for cell in step["report"]["cells"]:
        sums[cell["rank"]] += cell["compute_s"]
    hottest = max(range(8), key=lambda r: sums[r])
    over = sums[hottest] / (sum(sums) / 8)
    check("the hottest measured rank", "Measured: hottest rank %d with %.3f times the mean" % (
        hottest, over) in browser.text("#ranks-caption"), browser.text("#ranks-caption"))
    browser.click("#ranks-numbers summary")
    table = browser.wait("numbers of ranks", "const t = document.querySelector('#ranks-numbers tbody'); return t.rows.length === 8 && t.innerText")
    check("each rank's measured ratio", "%.3f" % over in table, table)
    browser.click("#time-numbers summary")
    browser.wait("numbers of degrees", "return document.querySelectorAll('#time-numbers tbody tr').length === 3")
    check("degrees in words", re.search(r"steps 0 to 2\. Step 2: .*at degree", browser.text("#time-caption")))


PIXEL = """
    const c = document.getElementById('map'), k = c.width / c.clientWidth;
    const b = arguments[0];
    return [...c.getContext('2d').getImageData(Math.round((b[0] + b[2] / 2) * k), Math.round((b[1] + b[3] / 2) * k), 1, 1).data].slice(0, 3);"""


def box(plan, m, r):
    """Where the middle of a cell is, as draw.js has it for eight ranks."""
    width = min(48, 1200 / len(plan["microbatches"]))
    return [34 + m * width, 16 + r * 14, width, 14]


def map_of_cells(browser, site):
    plan = site.call("GetPlan", job="live", step="1")["messages"][0]["plan"]
    cells = [(m, r, s) for m, mb in enumerate(plan["microbatches"])
             for r, s in enumerate(mb["cell_seconds"])]
    hot, cold = max(cells, key=lambda c: c[2]), min(cells, key=lambda c: c[2])
    check("this plan has hot and cold cells", hot[2] > 1.3 * cold[2], (hot, cold))
    check("the caption names the hottest cell", "Hottest: microbatch %d, rank %d" % hot[:2]
          in browser.text("#map-caption"), browser.text("#map-caption"))
    pixel = browser.js(PIXEL, box(plan, *hot[:2]))
    check("hot and cold cells have other colours", pixel != browser.js(
        PIXEL, box(plan, *cold[:2])), pixel)
    browser.js("document.getElementById('map').focus()")
    browser.press("home", *["down"] * 3)
    told = browser.text("#map-cell")
    cell = plan["microbatches"][0]
    check("the arrow keys tell a cell", told.startswith("Microbatch 0, rank 3: ") and
          "%s tokens" % format(round(cell["cell_tokens"][3]), ",") in told, told)
    check("the cell is marked", browser.js(
        "const m = document.getElementById('map-mark'); return m.checkVisibility() && m.offsetTop > 40"))
    browser.press("end")
    check("End goes to the last microbatch", browser.text("#map-cell").startswith(
        "Microbatch %d, rank 3" % (len(plan["microbatches"]) - 1)))
    browser.press("down", "down", "down", "down", "down", "down")
    check("it stops at the edge", ", rank 7" in browser.text("#map-cell"))
    for kind, words in (("measured", "Measured load"), ("degree", "Largest context-parallel degree")):
        browser.click("#map-kind input[value=%s]" % kind)
        check("the map shows " + kind, browser.text("#map-caption").startswith(words))
    check("the degree map has other colours", browser.js(PIXEL, box(plan, *hot[:2])) != pixel)
    browser.click("#map-kind input[value=predicted]")


def focus_stays(browser, stubs, service, step):
    """Updates do not throw the keyboard out of a list."""
    browser.js("[...document.querySelectorAll('#steps button')].find((b) => b.firstChild.textContent === 'Step 1').focus()")
    submit(stubs, service, step, LIVE[0])
    browser.wait("one more step", "return document.querySelectorAll('#steps button').length === arguments[0]", step + 1)
    check("the focus stays", browser.js("return document.activeElement.firstChild.textContent") == "Step 1")
    browser.press("tab")
    browser.press("enter")
    browser.wait("that Enter chooses", "return document.getElementById('plan-title').innerText === 'Plan of live, step 0'")


def faults(browser, stubs, service, agents):
    """A failed step says why, and markup in a reason stays text."""
    agents[1].fails = "rank 5: <img src=x onerror=alert(1)> broke"
    try:
        submit(stubs, service, 4, LIVE[0])
        check("the step fails", False)
    except stubs.grpc.RpcError:
        pass
    browser.wait("why it failed", "return /<img src=x onerror/.test(document.getElementById('steps').innerText)")
    check("a reason is no markup", browser.js("return document.querySelector('#steps img, #figures img') === null"))
    agents[1].vanish()
    browser.wait("one agent less", "return document.querySelectorAll('#members tbody tr').length === 1")


# --- what if ---

def table(browser):
    return browser.js("return [...document.querySelectorAll('#wi-result tr')].map((r) => [...r.cells].filter((c) => !c.hidden).map((c) => c.innerText))")


def seconds(s):
    return ("%.3f\u00a0s" % s if s >= 1 else "%.3f\u00a0ms" % (s * 1e3) if s >= 1e-3
            else "%.1f\u00a0µs" % (s * 1e6))


def plan_both(browser, what):
    browser.js("document.getElementById('wi-result').hidden = true")
    browser.click("#wi-plan")
    browser.wait(what, "return document.getElementById('wi-result').checkVisibility()")
    return table(browser)


def what_if(browser, site):
    browser.js("document.getElementById('wi-error').textContent = ''")
    browser.click("#wi-plan")
    browser.wait("that lengths are missing", "return /paste some/.test(document.getElementById('wi-error').innerText)")
    browser.type("#wi-lengths", "100, 12x")
    browser.click("#wi-plan")
    browser.wait("the bad length", "return /'12x' must be a whole number/.test(document.getElementById('wi-error').innerText)")
    check("the field is marked and has the focus", browser.js(
        "const e = document.activeElement; return e.id === 'wi-lengths' && e.getAttribute('aria-invalid') === 'true'"))
    lengths = [900, 500, 120, 80, 300, 650, 4000]
    browser.type("#wi-lengths", " ".join(map(str, lengths)))
    browser.type("#wi-cap", "0")
    browser.click("#wi-plan")
    browser.wait("the bad cap", "return /Cap: '0' must be/.test(document.getElementById('wi-error').innerText)")
    browser.type("#wi-ranks", "8")
    browser.type("#wi-cap", "100")
    browser.click("#wi-plan")
    browser.wait("what would be right", "return /raise the cap to 500, or let it have 40 ranks/.test(document.getElementById('wi-error').innerText)")
    browser.picture(pictures("whatif-error"))
    browser.type("#wi-cap", "1024")
    rows = plan_both(browser, "two plans of pasted lengths")
    direct = [site.call("Plan", batch={"length_tokens": lengths}, pool={"ranks": 8, "pp": 1},
                        limits={"cap_tokens": 1024}, policy={"policy": p})["plan"]
              for p in ("hydra", "megatron")]
    check("the figures are the daemon's", rows[0][1:] == ["hydra", "megatron"] and
          rows[1][1:] == [seconds(p["figures"]["step_s"]) for p in direct], rows)
    check("an error is gone", browser.text("#wi-error") == "")

    pick(browser, "#steps", "Step 1")
    browser.wait("step 1", "return document.getElementById('plan-title').innerText.endsWith('step 1')")
    browser.click("#wi-from-step")
    values = browser.js("return ['wi-lengths', 'wi-ranks', 'wi-cap', 'wi-pp', 'wi-like', 'wi-policy'].map((i) => document.getElementById(i).value)")
    check("a step brings its lengths and settings", values == [
        " ".join(map(str, LIVE[1])), "8", "1000", "1", "live", "hydra"], values)
    rows = plan_both(browser, "a step's plan against another policy")
    check("as planned, the same, and the other", rows[0][1:] == ["step 1 of live, as planned", "hydra", "megatron"], rows)
    check("the same input is the same plan", rows[1][1] == rows[1][2] and rows[-1][1:3] == ["the measure", "as long"], rows)
    browser.type("#wi-ranks", "4")
    browser.type("#wi-cap", "2000")
    browser.js("const s = document.getElementById('wi-policy2'); s.value = 'static'; s.dispatchEvent(new Event('change'))")
    changed = plan_both(browser, "other ranks, cap and policy")
    check("the difference is told", changed[0][3] == "static" and changed[1][2] != rows[1][2] and
          re.fullmatch(r"[\d.]+\u00a0% longer", changed[-1][2]), changed)
    check("both maps are drawn", browser.js("return [0, 1].every((i) => { const c = document.getElementById('wi-map' + i); return c.checkVisibility() && new Set(c.getContext('2d').getImageData(0, 0, c.width, c.height).data).size > 8; })"))
    check("nothing was submitted", len(site.call("ListSteps", job="live")["steps"]) == 5)


# --- large, closed, guarded, gone ---

def large(browser, site, stubs, service):
    random.seed(5)
    t = stubs.types
    job = stubs.job("large")
    job.pool.ranks, job.pool.ranks_per_node, job.pool.pp = 512, 8, 8
    job.limits.cap_tokens = 16384
    job.policy.options.add(key="microbatches", value="34")
    job.policy.options.add(key="effort", value="1")
    service.OpenJob(stubs.scheduler.OpenJobRequest(spec=job), timeout=WAIT_S)
    lengths = [min(131072, int(random.lognormvariate(8.3, 1.1)) + 1) for _ in range(6000)]
    request = stubs.scheduler.SubmitStepRequest(
        job="large", step=1, batch=t.Batch(length_tokens=lengths), omit_plan=True)
    plan = service.SubmitStep(request, timeout=4 * WAIT_S).plan
    check("34 microbatches", plan.num_microbatches == 34, plan.num_microbatches)
    service.CloseJob(stubs.scheduler.CloseJobRequest(job="live"), timeout=WAIT_S)
    quiet(browser, allowed=["status of 422"])
    times = []
    for _ in range(3):
        ready(browser, site.base + "/")
        browser.wait("the large plan", "return document.getElementById('plan-title').innerText === 'Plan of large, step 1'")
        times.append(int(browser.js("return document.body.dataset.ready")))
    size = browser.js("return performance.getEntriesByType('resource').reduce((s, e) => s + e.transferSize, 0)")
    print("512 ranks x 34 microbatches, %d sequences: shown %s ms after the address was "
          "entered, %.1f MB read (Chromium %s)" %
          (len(lengths), " ".join(map(str, times)), size / 1e6, browser.version))
    check("the map has all ranks", "of 17408 cells" in browser.text("#map-caption"))
    looks(browser, "large")
    names(browser)
    pick(browser, "#jobs", "live")
    check("the marked cell of another plan is forgotten", not browser.js("return document.getElementById('map-mark').checkVisibility()"))
    browser.wait("a closed job", "return /This job is closed/.test(document.getElementById('members-empty').innerText)")


def guarded(browser):
    """A daemon that wants tokens: the page itself is open, what it shows is not."""
    with tempfile.TemporaryDirectory(prefix="hydra-token-") as folder:
        path = os.path.join(folder, "tokens")
        with open(path, "w") as out:
            out.write("token page reader %s\n" % SECRET)
        os.chmod(path, 0o600)
        with Daemon("--http", "127.0.0.1:0", "--token-file", path) as daemon:
            site = Site(daemon.http_port)
            check("no look without a token", site.get("/api/ListJobs", b"{}")[0] == 401)
            browser.go(site.base + "/")
            browser.wait("that a token is wanted", "return document.getElementById('token-form').checkVisibility() && /asks for a token/.test(document.getElementById('status').innerText)")
            check("the field has the focus", browser.js("return document.activeElement.id") == "token")
            check("nothing is claimed about what cannot be seen", not browser.js("return document.getElementById('columns').checkVisibility()"))
            contrast(browser, "token")
            browser.picture(pictures("token"))
            browser.type("#token", "wrong-and-long-enough")
            browser.press("enter")
            browser.wait("that it is unknown", "return /does not know this token/.test(document.getElementById('status').innerText)")
            browser.type("#token", SECRET)
            browser.press("enter")
            browser.wait("the jobs", "return document.body.dataset.ready && /Connected/.test(document.getElementById('status').innerText)")
            check("the form is gone", not browser.js("return document.getElementById('token-form').checkVisibility()"))
            check("the token is not kept in the page", SECRET not in browser.js("return document.documentElement.outerHTML + location.href + JSON.stringify(localStorage) + document.cookie"))
            names(browser)
            quiet(browser, allowed=["status of 401"])


def hangs(browser, daemon):
    """A daemon that takes the connection and says nothing: the page does not look alive."""
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        browser.wait("that the daemon hangs", "return /busy or hangs/.test(document.getElementById('status').innerText)")
    finally:
        daemon.process.send_signal(signal.SIGCONT)
    browser.wait("that it is back", "return /^Connected/.test(document.getElementById('status').innerText)")


def lost(browser):
    browser.wait("that the daemon is gone", "return /Is hydra-schedd running\\?/.test(document.getElementById('status').innerText)")
    check("what was shown stays", browser.js("return document.querySelectorAll('#jobs button').length") > 0)
    contrast(browser, "lost")
    browser.picture(pictures("lost"))
    browser.go("about:blank")  # it asks no more
    quiet(browser, allowed=["ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE"])


def look(browser, stubs):
    with Daemon("--http", "127.0.0.1:0") as daemon:
        channel = stubs.grpc.insecure_channel("unix:" + daemon.socket)
        service = stubs.scheduler_grpc.SchedulerStub(channel)
        site = Site(daemon.http_port)
        headers(site)
        empty(browser, site)
        agents = live(browser, site, stubs, service, channel)
        figures_agree(browser, site)
        map_of_cells(browser, site)
        keyboard(browser)
        names(browser)
        looks(browser, "live")
        narrow(browser, "live")
        focus_stays(browser, stubs, service, 3)
        faults(browser, stubs, service, agents)
        quiet(browser)
        what_if(browser, site)
        names(browser)
        looks(browser, "whatif")
        narrow(browser, "whatif")
        large(browser, site, stubs, service)
        quiet(browser)
        hangs(browser, daemon)
        channel.close()
    lost(browser)


def main():
    find_browser()
    stubs = Stubs()
    begin = time.monotonic()
    with Browser() as browser:
        browser.collect()
        browser.console, browser.urls = [], []
        look(browser, stubs)
        guarded(browser)
    print("in %.0f s; pictures in %s" % (time.monotonic() - begin, os.path.dirname(pictures("x"))))


if __name__ == "__main__":
    main()
