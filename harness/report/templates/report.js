"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const tests = data.tests;
  const PAGE = 100; // rows added at a time
  const ORDER = ["crashed", "deadlocked", "timed out", "error", "failed", "unexpected success", "ended", "flaky", "passed",
    "expected failure", "skipped"];
  const byId = (id) => document.getElementById(id);
  const state = { statuses: new Set(), words: [], suite: "", sort: "bad" };

  function element(tag, className, text) {
    const node = document.createElement(tag);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    return node;
  }
  const shownStatus = (test) => (test.flaky ? "flaky" : test.status);
  const cssStatus = (status) => "s-" + status.replaceAll(" ", "-");
  const last = (test) => test.attempts[test.attempts.length - 1];
  function seconds(value) {
    return value.toFixed(value < 1 ? 3 : value < 10 ? 2 : 1) + " s";
  }
  const longest = tests.reduce((most, test) => Math.max(most, test.seconds), 1e-9);

  // What the text filter looks at: lower-case, made once a test and only when somebody filters.
  const haystacks = new Map();
  function haystack(test) {
    if (!haystacks.has(test)) {
      const parts = [test.id];
      for (const attempt of test.attempts) parts.push(attempt.reason || "", attempt.details || "", attempt.worker);
      haystacks.set(test, parts.join("\n").toLowerCase());
    }
    return haystacks.get(test);
  }

  function matches(test) {
    if (state.statuses.size && !state.statuses.has(shownStatus(test))) return false;
    if (state.suite && test.suite !== state.suite) return false;
    return state.words.every((word) => haystack(test).includes(word));
  }
  const rank = (test) => ORDER.indexOf(shownStatus(test));
  const orders = {
    bad: (a, b) => rank(a) - rank(b),
    run: null,
    slow: (a, b) => b.seconds - a.seconds,
    id: (a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0),
  };

  let chosen = [];
  let drawn = 0;
  function apply() {
    chosen = tests.filter(matches);
    if (orders[state.sort]) chosen.sort(orders[state.sort]);
    drawn = 0;
    byId("tests").replaceChildren();
    byId("shown").textContent = `${chosen.length} of ${tests.length}`;
    addRows();
    timeline.draw();
  }
  function addRows() {
    const end = Math.min(drawn + PAGE, chosen.length);
    const fragment = document.createDocumentFragment();
    for (; drawn < end; drawn++) fragment.append(row(chosen[drawn]));
    byId("tests").append(fragment);
    byId("more").textContent = drawn < chosen.length ? `${chosen.length - drawn} more below` : "";
  }
  new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting) && drawn < chosen.length) addRows();
  }, { rootMargin: "600px" }).observe(byId("more"));

  function row(test) {
    const box = element("div", "test");
    const line = element("button", "row");
    line.type = "button";
    line.setAttribute("aria-expanded", "false");
    const status = shownStatus(test);
    line.append(element("span", `badge ${cssStatus(status)}`, status));
    const name = element("span", "name");
    name.append(element("span", "", test.name + (test.repeat ? ` (repeat ${test.repeat})` : "")));
    name.append(element("span", "where", test.where));
    const reason = last(test).reason;
    if (reason) name.append(element("span", "why", reason.split("\n")[0]));
    line.append(name);
    const size = last(test).worldSize;
    line.append(element("span", "number meta", size ? `${size} rank${size > 1 ? "s" : ""}` : ""));
    const time = element("span", "number time", seconds(test.seconds));
    time.style.setProperty("--share", `${(100 * test.seconds) / longest}%`);
    line.append(time);
    line.addEventListener("click", () => toggle(box, line, test));
    box.append(line);
    return box;
  }
  function toggle(box, line, test) {
    const open = box.querySelector(".body");
    line.setAttribute("aria-expanded", String(!open));
    if (open) open.remove();
    else {
      box.append(body(test));
      // What went wrong is at the end.
      for (const strip of box.querySelectorAll(".lanes .strip")) strip.scrollLeft = strip.scrollWidth;
    }
  }

  function body(test) {
    const box = element("div", "body");
    for (let n = test.attempts.length - 1; n >= 0; n--) box.append(...attempt(test, n));
    return box;
  }
  function attempt(test, n) {
    const it = test.attempts[n];
    const nodes = [];
    if (test.attempts.length > 1) nodes.push(element("h3", cssStatus(it.status), `attempt ${n + 1}: ${it.status}`));
    const facts = [test.id, it.worker && `worker ${it.worker}`, seconds(it.seconds), it.mode && `rank mode ${it.mode}`,
      it.seed !== undefined && `seed ${it.seed}`, it.source,
      it.subtestsRun && `${it.subtestsRun} sub-tests run`];
    nodes.push(element("p", "meta", facts.filter(Boolean).join(" \u00b7 ")));
    if (it.details) nodes.push(element("pre", "", it.details));
    else if (it.reason) nodes.push(element("pre", "", it.reason));
    if (it.picture) {
      const box = element("div");
      box.innerHTML = it.picture; // harness/report/picture.py has escaped what is foreign in it
      nodes.push(...box.childNodes);
    }
    for (const warning of it.warnings || []) nodes.push(element("p", "notice", `warning: ${warning}`));
    for (const sub of it.subtests || []) nodes.push(subtest(sub));
    if (it.output) nodes.push(folded("output", it.output));
    for (const one of it.ranks || []) nodes.push(rankDetails(one));
    return nodes;
  }
  function subtest(sub) {
    const on = sub.ranks ? ` on rank${sub.ranks.length > 1 ? "s" : ""} ${sub.ranks.join(", ")}` : "";
    return folded(`sub-test ${sub.name}: ${sub.status}${on}`, sub.details || "", cssStatus(sub.status));
  }
  function folded(title, text, className) {
    const box = element("details");
    box.append(element("summary", className, title));
    box.append(element("pre", "", text));
    return box;
  }
  function rankDetails(one) {
    const box = element("details");
    const facts = [`rank ${one.rank}: ${one.status}`, seconds(one.seconds), one.exit,
      one.memory && `peak ${Math.round(one.memory / 1048576)} MiB`, one.pid && `pid ${one.pid}`];
    box.append(element("summary", cssStatus(one.status), facts.filter(Boolean).join(", ")));
    const parts = { error: one.error, stack: one.stack, output: one.output,
      "last collectives": (one.collectives || []).join("\n") };
    for (const [title, text] of Object.entries(parts)) {
      if (!text) continue;
      box.append(element("div", "meta", title));
      box.append(element("pre", "", text));
    }
    if (one.log) box.append(element("p", "meta", `log: ${one.log}`));
    if (!one.log && box.children.length === 1) box.append(element("p", "meta", "nothing more to tell"));
    return box;
  }

  function show(test) {
    if (!chosen.includes(test)) {
      state.statuses.clear();
      state.words = [];
      state.suite = "";
      byId("text").value = "";
      byId("suite").value = "";
      pressed();
      apply();
    }
    const place = chosen.indexOf(test);
    while (drawn <= place) addRows();
    const box = byId("tests").children[place];
    if (!box.querySelector(".body")) box.querySelector(".row").click();
    box.scrollIntoView({ block: "center" });
    history.replaceState(null, "", "#" + encodeURIComponent(test.id));
  }

  const timeline = (() => {
    const canvas = document.querySelector("#timeline canvas");
    const tip = byId("tip");
    const HEIGHT = 22, GAP = 3, LEFT = 64, AXIS = 22;
    const bars = [];
    for (const test of tests)
      for (const it of test.attempts) if (it.at !== undefined) bars.push({ test, it });
    // Failures are drawn last, and never too thin to be seen among thousands.
    const good = (it) => ["passed", "skipped", "expected failure"].includes(it.status);
    bars.sort((a, b) => good(b.it) - good(a.it));
    const number = (name) => Number((name.match(/\d+$/) || [0])[0]);
    const workers = [...new Set(bars.map((bar) => bar.it.worker))]
      .sort((a, b) => number(a) - number(b) || (a < b ? -1 : 1));
    const lanes = new Map(workers.map((name, lane) => [name, lane]));
    const span = bars.reduce((end, { it }) => Math.max(end, it.at + it.seconds), 0);
    if (!bars.length || span <= 0) return { draw() {} };
    byId("timeline").hidden = false;
    const x = (at) => LEFT + (at / span) * (canvas.clientWidth - LEFT - 8);
    const y = (worker) => 6 + lanes.get(worker) * (HEIGHT + GAP);

    function color(name) {
      return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    }
    function step() {
      const wanted = span / 8;
      const power = 10 ** Math.floor(Math.log10(wanted));
      return [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= wanted);
    }
    function draw() {
      const height = 6 + workers.length * (HEIGHT + GAP) + AXIS;
      const ratio = window.devicePixelRatio || 1;
      canvas.style.height = `${height}px`;
      canvas.width = canvas.clientWidth * ratio;
      canvas.height = height * ratio;
      const pen = canvas.getContext("2d");
      pen.scale(ratio, ratio);
      pen.font = "12px system-ui, sans-serif";
      const colors = { passed: color("good"), "expected failure": color("good"), failed: color("bad"),
        error: color("bad"), "unexpected success": color("bad"), crashed: color("crash"),
        "timed out": color("crash"), deadlocked: color("crash"), skipped: color("skip"), ended: color("rest") };
      pen.textBaseline = "middle";
      const every = step();
      for (let n = 0; n * every <= span; n++) {
        pen.fillStyle = color("line");
        pen.fillRect(x(n * every), 0, 1, height - AXIS);
        pen.fillStyle = color("soft");
        const label = `${Number((n * every).toPrecision(6))} s`;
        pen.fillText(label, Math.min(x(n * every) + 3, canvas.clientWidth - pen.measureText(label).width - 4),
          height - AXIS / 2);
      }
      for (const worker of workers) {
        pen.fillStyle = color("soft");
        pen.fillText(worker || "-", 8, y(worker) + HEIGHT / 2, LEFT - 12);
      }
      const some = chosen.length < tests.length ? new Set(chosen) : null;
      for (const { test, it } of bars) {
        pen.globalAlpha = some && !some.has(test) ? 0.15 : 1;
        pen.fillStyle = colors[it.status] || color("rest");
        const width = Math.max(good(it) ? 1.5 : 3, x(it.at + it.seconds) - x(it.at) - 0.5);
        pen.fillRect(x(it.at), y(it.worker), width, HEIGHT);
      }
      pen.globalAlpha = 1;
    }
    function find(event) {
      const px = event.offsetX, py = event.offsetY;
      const hit = (bar) => py >= y(bar.it.worker) && py < y(bar.it.worker) + HEIGHT
        && px >= x(bar.it.at) - 2 && px <= x(bar.it.at + bar.it.seconds) + 2;
      return bars.findLast ? bars.findLast(hit) : bars.filter(hit).pop();
    }
    canvas.addEventListener("mousemove", (event) => {
      const bar = find(event);
      tip.hidden = !bar;
      canvas.style.cursor = bar ? "pointer" : "";
      if (!bar) return;
      tip.textContent = `${bar.it.status}: ${bar.test.id} (${seconds(bar.it.seconds)})`;
      tip.style.top = `${canvas.offsetTop + event.offsetY + 16}px`;
      tip.style.left = `${Math.min(event.offsetX + 12, canvas.clientWidth - tip.offsetWidth - 4)}px`;
    });
    canvas.addEventListener("mouseleave", () => { tip.hidden = true; });
    canvas.addEventListener("click", (event) => {
      const bar = find(event);
      if (bar) show(bar.test);
    });
    window.addEventListener("resize", draw);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    return { draw };
  })();

  const counts = new Map();
  for (const test of tests) counts.set(shownStatus(test), (counts.get(shownStatus(test)) || 0) + 1);
  for (const status of ORDER.filter((name) => counts.has(name))) {
    const button = element("button", cssStatus(status), `${status} ${counts.get(status)}`);
    button.type = "button";
    button.dataset.status = status;
    button.addEventListener("click", () => {
      if (!state.statuses.delete(status)) state.statuses.add(status);
      pressed();
      apply();
    });
    byId("statuses").append(button);
  }
  function pressed() {
    for (const button of byId("statuses").children)
      button.setAttribute("aria-pressed", String(state.statuses.has(button.dataset.status)));
  }
  for (const suite of [...new Set(tests.map((test) => test.suite))].sort())
    byId("suite").append(new Option(suite, suite));
  byId("suite").addEventListener("change", (event) => { state.suite = event.target.value; apply(); });
  byId("sort").addEventListener("change", (event) => { state.sort = event.target.value; apply(); });
  let waiting = 0;
  byId("text").addEventListener("input", (event) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      state.words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
      apply();
    }, 120);
  });
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  for (const button of document.querySelectorAll("[data-copy]"))
    button.addEventListener("click", async () => {
      const source = byId(button.dataset.copy);
      try {
        await navigator.clipboard.writeText(source.textContent);
        button.textContent = "copied";
      } catch (refused) {
        // Pages opened from a file may not reach the clipboard: select the text for the user's own copy.
        getSelection().selectAllChildren(source);
      }
    });

  pressed();
  apply();
  const wanted = decodeURIComponent(location.hash.slice(1));
  const linked = wanted && tests.find((test) => test.id === wanted);
  if (linked) show(linked);
})();
