"use strict";

/* The page of a peer: shows what /api/stream tells, and reads curves from /api/series. All texts are put into the
 * page as texts, never as HTML, as many of them come from the network. What is kept is bounded: a page that is left
 * open for weeks grows no further. */

const $ = (id) => document.getElementById(id);

const MOST_EVENTS = 400, MOST_LINES = 300, MOST_POINTS = 900, SILENT_MS = 8000;

/* Makes an element with text or elements in it. */
function make(tag, options = {}, ...inside) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(options)) {
    if (key === "class") element.className = value;
    else if (value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...inside.filter((part) => part !== null && part !== undefined));
  return element;
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/* Texts. */

const number = (value, digits) => (typeof value === "number" && isFinite(value) ? Chart.number(value, digits) : "–");
const whole = (value) => (typeof value === "number" ? Chart.step(value) : "–");
const percent = (value) => (value * 100).toFixed(value < 0.1 ? 1 : 0) + " %";

function bytes(value) {
  if (typeof value !== "number") return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let i = 0;
  while (value >= 1024 && i < units.length - 1) {
    value /= 1024;
    i++;
  }
  return (i === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)) + " " + units[i];
}

function duration(seconds) {
  if (typeof seconds !== "number" || !isFinite(seconds)) return "–";
  if (seconds < 0.00095) return Math.round(seconds * 1e6) + " µs";
  if (seconds < 0.95) return (seconds * 1e3).toPrecision(3) + " ms";
  if (seconds < 99.5) return Number(seconds.toPrecision(3)) + " s";
  const minutes = Math.round(seconds / 60);
  if (minutes < 100) return minutes + " min";
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return hours + " h " + (minutes % 60) + " min";
  return Math.floor(hours / 24) + " d " + (hours % 24) + " h";
}

function clock(time) {
  const date = new Date(time * 1000), now = new Date();
  const text = date.toLocaleTimeString("en-GB");
  return date.toDateString() === now.toDateString() ? text : (date.getMonth() + 1) + "/" + date.getDate() + " " + text.slice(0, 5);
}

const shortId = (id) => String(id).slice(0, 8);

/* What is known. */

let known = { boot: null, state: {}, peers: {}, series: { last: 0, cuts: 0 } };
let events = []; /* of the journal, the newest last */
let curves = {}; /* name of a series -> its columns */

/* Makes a merge patch (RFC 7386) part of an object. */
function patch(target, change) {
  for (const [key, value] of Object.entries(change)) {
    if (value === null) delete target[key];
    else if (typeof value === "object" && !Array.isArray(value) && typeof target[key] === "object" && target[key] !== null && !Array.isArray(target[key])) patch(target[key], value);
    else target[key] = value;
  }
}

/* Peers. */

function nameOf(id, name) {
  const row = known.peers[id];
  const text = name || (row && row.name) || "";
  return text ? text + " (" + shortId(id) + ")" : shortId(id);
}

/* Why a peer stands out, in words, or "". */
const stateMarks = { alive: "●", suspect: "▲", dead: "✕", unreachable: "✕", left: "○" };

function medianSpeed() {
  const speeds = Object.values(known.peers).filter((p) => p.member && p.shards_per_s > 0).map((p) => p.shards_per_s).sort((a, b) => a - b);
  return speeds.length > 0 ? speeds[speeds.length >> 1] : 0;
}

function isSlow(peer, median) {
  return peer.member && peer.shards_per_s > 0 && median > 0 && peer.shards_per_s < 0.6 * median;
}

const isGone = (peer) => peer.state === "dead" || peer.state === "unreachable";

/* The columns of the table of peers: key, title, value to sort by, text. */
const card = (peer) => peer.card || {};
const columns = [
  ["peer", "Peer", (p) => (p.name || "") + p.id, null],
  ["state", "State", (p) => p.state, null],
  ["host", "Host", (p) => card(p).host, null],
  ["device", "Device", (p) => card(p).device, (v) => v.split(";")[0]],
  ["step", "Step", (p) => p.step, whole],
  ["speed", "Shards/s", (p) => p.shards_per_s || undefined, (v) => number(v)],
  ["done", "Done", (p) => card(p).shards, whole],
  ["stolen", "Stolen", (p) => card(p).shards_stolen, whole],
  ["flight", "In flight", (p) => card(p).shards_in_flight, whole],
  ["memory", "Memory", (p) => card(p).rss_bytes, bytes],
  ["gpu", "GPU use", (p) => card(p).gpu_utilization, percent],
  ["temperature", "Temp.", (p) => card(p).gpu_temperature_c, (v) => v + " °C"],
  ["power", "Power", (p) => card(p).watts ?? card(p).gpu_power_w, (v) => number(v, 3) + " W"],
  ["path", "Path", (p) => p.path || undefined, null],
  ["checkpoint", "Checkpoint", (p) => p.checkpoint_step ?? undefined, whole],
  ["chunks", "Chunks", (p) => card(p).checkpoint_chunks_held, null],
];
let sortBy = "peer", sortUp = true, opened = null;
const peerRows = new Map(); /* id -> {row, cells, detail} */

function makePeerHead() {
  const row = make("tr");
  for (const [key, title] of columns) {
    const button = make("button", { type: "button" }, title);
    button.addEventListener("click", () => {
      sortUp = sortBy === key ? !sortUp : true;
      sortBy = key;
      showPeers();
    });
    row.append(make("th", { scope: "col", "data-key": key, class: isText(key) ? "" : "number" }, button));
  }
  $("peer-table").tHead.append(row);
}

const isText = (key) => ["peer", "state", "host", "device", "path"].includes(key);

function comparePeers(a, b) {
  const value = columns.find((c) => c[0] === sortBy)[2];
  const x = value(a), y = value(b);
  if (x === undefined || y === undefined) return (x === undefined) - (y === undefined) || a.id.localeCompare(b.id);
  const order = typeof x === "number" ? x - y : String(x).localeCompare(String(y));
  return (sortUp ? order : -order) || a.id.localeCompare(b.id);
}

function makePeerRow(id) {
  const row = make("tr"), cells = {};
  for (const [key, title] of columns) {
    cells[key] = make("td", { "data-label": title, class: key === "peer" || key === "device" ? key : isText(key) ? "" : "number" });
    row.append(cells[key]);
  }
  const open = make("button", { type: "button", "aria-expanded": "false", title: "More about this peer" }, "+");
  open.addEventListener("click", () => {
    opened = opened === id ? null : id;
    showPeers();
  });
  const name = make("span", { class: "name" }), short = make("span", { class: "id" }), badges = make("span");
  cells.peer.append(open, " ", name, " ", short, badges);
  const meter = make("span", { class: "meter", "aria-hidden": "true" }, make("span"));
  const speed = make("span");
  cells.speed.append(speed, meter);
  const host = make("span"), address = make("span", { class: "id" });
  cells.host.append(make("span", {}, host, make("br"), address));
  return { row, cells, open, name, short, badges, speed, host, address, meter: meter.firstChild, badgeText: "", detail: null, detailText: "" };
}

function setBadges(shown, list) {
  const text = list.map((b) => b.join()).join("|");
  if (shown.badgeText === text) return;
  shown.badgeText = text;
  shown.badges.replaceChildren(...list.map(([kind, words]) => make("span", { class: "badge " + kind }, words)));
}

function fillPeer(shown, peer, median, fastest) {
  const slow = isSlow(peer, median), gone = isGone(peer);
  const badges = [];
  if (peer.self) badges.push(["", "this peer"]);
  if (peer.leader) badges.push(["good", "leader"]);
  if (!peer.member && !gone && peer.state !== "left") badges.push(["", "no member"]);
  if (slow) badges.push(["warn", "slow: " + percent(peer.shards_per_s / median) + " of the median"]);
  if (card(peer).disk_writable === false) badges.push(["bad", "disk fails"]);
  if (card(peer).gpus_bad > 0) badges.push(["bad", "GPU bad"]);
  if (peer.checkpoint_step === undefined && !gone && known.state.checkpoint_step > 0 && peer.member) badges.push(["", "no checkpoint"]);
  shown.row.className = gone ? "gone" : slow ? "slow" : "";
  setText(shown.name, peer.name || "peer");
  setText(shown.short, shortId(peer.id));
  setBadges(shown, badges);
  for (const [key, , value, text] of columns) {
    if (key === "peer" || key === "speed" || key === "host") continue;
    let words = value(peer);
    if (key === "state") words = (stateMarks[peer.state] || "?") + "\u00a0" + peer.state + (gone && peer.gone_since ? " since " + clock(peer.gone_since) : "");
    else if (key === "chunks") words = words === undefined ? "–" : words + " of " + card(peer).checkpoint_chunks;
    else words = words === undefined || words === null ? "–" : text !== null ? text(words) : String(words);
    setText(shown.cells[key], words);
    shown.cells[key].classList.toggle("empty", words === "–");
  }
  shown.cells.state.classList.toggle("bad", gone);
  shown.cells.state.classList.toggle("warn", peer.state === "suspect");
  setText(shown.host, card(peer).host || "–");
  setText(shown.address, peer.address || "");
  setText(shown.speed, peer.shards_per_s > 0 ? number(peer.shards_per_s) : "–");
  shown.meter.style.width = fastest > 0 ? Math.min(100, (100 * (peer.shards_per_s || 0)) / fastest) + "%" : "0";
  shown.cells.host.title = card(peer).phase || "";
  shown.cells.device.title = card(peer).device || "";
}

/* What is shown of a peer when its row is opened: all that its card says, and what happened to it. */
function showDetail(shown, peer) {
  const isOpen = opened === peer.id;
  shown.open.setAttribute("aria-expanded", String(isOpen));
  setText(shown.open, isOpen ? "−" : "+");
  if (!isOpen) {
    if (shown.detail !== null) shown.detail.remove();
    shown.detail = null;
    return;
  }
  const about = events.filter((e) => concerns(e, peer.id)).slice(-6).reverse();
  const facts = Object.entries({ id: peer.id, address: peer.address, boot: peer.boot, card_age_s: peer.card_age_s, ...card(peer) });
  const text = JSON.stringify([facts, about.map((e) => e.line), peer.state]);
  if (shown.detail !== null && shown.detailText === text) return;
  shown.detailText = text;
  const list = make("dl");
  for (const [key, value] of facts)
    if (value !== undefined && key !== "gpus")
      list.append(make("div", {}, make("dt", {}, key.replaceAll("_", " ")), make("dd", {}, typeof value === "number" && !Number.isInteger(value) ? number(value, 5) : String(value))));
  const past = make("ol", { class: "events" });
  for (const event of about) past.append(eventItem(event));
  const cell = make("td", { colspan: columns.length }, list, about.length > 0 ? past : make("p", { class: "note" }, "The journal of this peer tells nothing about it."));
  if (shown.detail === null) shown.detail = make("tr", { class: "detail" });
  shown.detail.replaceChildren(cell);
}

function showPeers() {
  const body = $("peer-table").tBodies[0], median = medianSpeed();
  const list = Object.values(known.peers).sort(comparePeers);
  const fastest = Math.max(0, ...list.map((p) => p.shards_per_s || 0));
  for (const id of [...peerRows.keys()])
    if (!(id in known.peers)) {
      const shown = peerRows.get(id);
      shown.row.remove();
      if (shown.detail !== null) shown.detail.remove();
      peerRows.delete(id);
    }
  let place = body.firstChild;
  for (const peer of list) {
    if (!peerRows.has(peer.id)) peerRows.set(peer.id, makePeerRow(peer.id));
    const shown = peerRows.get(peer.id);
    fillPeer(shown, peer, median, fastest);
    showDetail(shown, peer);
    for (const row of [shown.row, shown.detail]) {
      if (row === null) continue;
      if (row === place) place = place.nextSibling;
      else body.insertBefore(row, place);
    }
  }
  for (const head of $("peer-table").tHead.rows[0].cells) {
    if (head.dataset.key === sortBy) head.setAttribute("aria-sort", sortUp ? "ascending" : "descending");
    else head.removeAttribute("aria-sort");
  }
  /* Columns that no peer has a value for take no room. */
  for (const key of ["gpu", "temperature", "power"]) {
    const value = columns.find((c) => c[0] === key)[2], index = columns.findIndex((c) => c[0] === key);
    const none = list.every((p) => value(p) === undefined);
    for (const shown of peerRows.values()) shown.cells[key].hidden = none;
    $("peer-table").tHead.rows[0].cells[index].hidden = none;
  }
}

/* Events. */

/* An event in words: [importance, mark, text]. Importance: 0 only where everything is shown, 1 matters, 2 trouble. */
function describe(e) {
  const cause = e.cause ? ": " + e.cause : "";
  switch (e.event) {
    case "peer": {
      const name = nameOf(e.peer, e.peer_name);
      if (e.state === "dead") return [2, "✕", "Peer " + name + " is dead: its process has ended"];
      if (e.state === "unreachable") return [2, "✕", "Peer " + name + " is unreachable: its process or host has stopped, or the network between is cut"];
      if (e.state === "left") return [1, "○", "Peer " + name + " has left"];
      return [1, "●", "Peer " + name + " is " + e.state];
    }
    case "view": return [1, "◆", "View " + e.number + ": " + count(e.members, "peer") + namesOf(e.members) + ", leader " + nameOf(e.leader, e.leader_name) + ", at step " + whole(e.step) + cause];
    case "repair": return [2, "✚", "Step " + whole(e.step) + " repaired: " + count(e.shards, "shard") + " dealt again" + cause];
    case "join": return [1, "●", count(e.newcomers, "peer") + " joined at step " + whole(e.step) + "; the flock paused for " + duration(e.pause_ms / 1000)];
    case "checkpoint": return [0, "▣", "Checkpoint of step " + whole(e.step) + " complete, " + bytes(e.bytes) + " written here" + (e.took_ms ? " in " + duration(e.took_ms / 1000) : "")];
    case "resuming": return [1, "↻", "Resuming from the checkpoint of step " + whole(e.step)];
    case "resumed": return [1, "↻", "Resumed at step " + whole(e.step)];
    case "continue": return [1, "↻", "The job goes on from step " + whole(e.step) + " of job " + shortId(e.parent)];
    case "corruption": return [2, "⚠", "Corruption at step " + whole(e.step) + ", peer " + (e.peer ? nameOf(e.peer, e.peer_name) : "unknown") + ": " + (e.evidence || "")];
    case "healed": return [1, "●", "Healed: " + (e.text || "")];
    case "phase": return [0, "›", String(e.text)];
    case "warning": return [2, "⚠", e.room + ": " + e.text];
    case "error": return [2, "✕", e.room + ": " + e.text];
    case "log": return [0, "›", e.room + ": " + e.text];
    case "opening": return [0, "›", "Opening: " + (e.device || "") + (e.memory ? ", memory " + e.memory : "")];
    case "start": return [1, "▶", "Start: job " + e.job + ", boot " + e.boot + ", " + count(e.workers, "worker")];
    case "life": return [e.last_end && e.last_end !== "ended" ? 2 : 0, "▶", "This process began" + (e.last_text ? "; the one before it " + e.last_text : "")];
    case "done": return [e.outcome === "done" || e.outcome === "left" || e.outcome === "stopped" || e.outcome === "again" ? 1 : 2, "■", "End: " + e.outcome + (e.text ? ": " + e.text : "")];
    case "recovered": return [1, "✓", "Steps go on at step " + whole(e.step) + " after " + duration(e.gap_ms / 1000) + " (usually " + duration(e.usual_ms / 1000) + " a step)"];
    case "worker": return [2, "✕", "A worker has ended at step " + whole(e.step) + ", shard " + whole(e.shard) + ": " + (e.text || e.end)];
    case "slow": return e.slow ? [2, "▼", "Peer " + nameOf(e.peer, e.peer_name) + " is slow: " + number(e.speed) + " shards a second, where it usually makes " + number(e.usual)]
      : [1, "●", "Peer " + nameOf(e.peer, e.peer_name) + " is as fast as usual again: " + number(e.speed) + " shards a second"];
    case "pause": return [2, "▲", "This process was stopped or starved for " + duration(e.ms / 1000)];
    case "clock": return [1, "▲", "The clock of this machine jumped by " + number(e.jump_s) + " s"];
    case "probes": return [0, "▲", whole(e.failed) + " of " + whole(e.probes) + " probes were not answered in " + duration(e.seconds)];
    case "disk": return e.failing ? [2, "✕", "The disk of this peer fails: checkpoints cannot be written or read here"] : [1, "●", "The disk of this peer works again, after " + duration(e.failed_ms / 1000)];
    case "listening": return [0, "›", "Serving " + e.what + " on " + e.address];
    case "storage": return [0, "▣", "Checkpoints " + e.every + ": up to " + bytes(e.most_bytes) + ", " + bytes(e.left_bytes) + " are free"];
    case "sample": return [1, "✎", "Sample at step " + whole(e.step) + ": " + (e.prompt || "") + e.text];
    case "progress": return [0, "·", "Step " + whole(e.step) + ", " + duration(e.ms / 1000) + " each, " + count(e.members, "member")];
  }
  return [1, "•", String(e.event).replaceAll("_", " ") + (e.text ? ": " + e.text : "") + cause];
}

function count(value, noun) {
  const n = Array.isArray(value) ? value.length : value;
  return whole(n) + " " + noun + (n === 1 ? "" : "s");
}

/* The names of some peers in brackets, or "" where they are too many for a line. */
function namesOf(ids) {
  if (!Array.isArray(ids) || ids.length === 0 || ids.length > 8) return "";
  return " (" + ids.map((id) => nameOf(id)).join(", ") + ")";
}

function concerns(e, id) {
  if (e.peer === id || e.leader === id) return true;
  const texts = [e.cause, e.text, e.evidence];
  return texts.some((t) => typeof t === "string" && t.includes(shortId(id)));
}

const kinds = ["", "", "bad"], kindWords = ["", "", "trouble: "];

function eventItem(event) {
  const [importance, mark, text] = describe(event);
  const when = make("time", { datetime: new Date(event.time * 1000).toISOString(), title: new Date(event.time * 1000).toLocaleString() }, clock(event.time));
  return make("li", {}, when, make("span", { class: kinds[importance], "aria-hidden": "true" }, mark),
    make("span", { class: kinds[importance] }, importance === 2 ? make("span", { class: "skip" }, kindWords[2]) : null, text));
}

function showEvents() {
  const filter = $("timeline-filter").value, least = { main: 1, trouble: 2, all: 0 }[filter];
  const list = events.filter((e) => describe(e)[0] >= least).slice(-150).reverse();
  $("event-list").replaceChildren(...list.map(eventItem));
  $("no-events").hidden = list.length > 0;
  const views = events.filter((e) => e.event === "view").slice(-30).reverse();
  $("view-list").replaceChildren(...views.map((e) => {
    const item = eventItem(e);
    item.title = "took " + duration(e.took_ms / 1000);
    return item;
  }));
}

function addEvents(list) {
  const seen = events.length > 0 ? events[events.length - 1].line : 0;
  const more = list.filter((e) => e.line > seen && typeof e.time === "number");
  if (more.length === 0) return;
  events = events.concat(more).slice(-MOST_EVENTS);
  showEvents();
}

/* The log. */

let lastLine = 0;

function addLines(list) {
  const log = $("log-list");
  for (const line of list) {
    if (line.line <= lastLine) continue;
    lastLine = line.line;
    const kind = line.level === "error" ? "bad" : line.level === "warn" || line.level === "warning" ? "warn" : "";
    log.append(make("li", { class: kind }, make("time", {}, clock(line.time)), " ", make("b", {}, line.level), " " + line.room + ": " + line.text));
  }
  while (log.childElementCount > MOST_LINES) log.firstChild.remove();
  if ($("follow").checked) log.scrollTop = log.scrollHeight;
}

/* Overview. */

const tiles = new Map();

function tile(key, title, value, more, kind) {
  if (!tiles.has(key)) {
    const dd = make("dd"), main = make("span"), small = make("small");
    dd.append(main, small);
    const box = make("div", { class: kind }, make("dt", {}, title), dd);
    tiles.set(key, { box, main, small });
    $("tiles").append(box);
  }
  const shown = tiles.get(key);
  shown.box.hidden = value === null;
  if (value === null) return;
  setText(shown.main, value);
  setText(shown.small, more || "");
  shown.small.hidden = !more;
}

/* The part of the members' time that goes into shards: what the flock makes a second, of what its members make
 * together while they are busy. */
function efficiency(s) {
  const speeds = Object.values(known.peers).filter((p) => p.member).map((p) => p.shards_per_s || 0);
  const sum = speeds.reduce((a, b) => a + b, 0);
  return sum > 0 && s.shards_per_s > 0 && speeds.every((v) => v > 0) ? Math.min(1, s.shards_per_s / sum) : null;
}

/* What a job reports, as one line of at most so many of its numbers. */
function keyValues(report, most = 100) {
  return Object.entries(report || {}).slice(0, most).map(([key, value]) => key + " " + (typeof value === "number" ? number(value, 5) : value)).join(", ");
}

function showTiles(s) {
  const peers = Object.values(known.peers), gone = peers.filter(isGone).length, busy = efficiency(s);
  const left = s.steps > 0 && s.step_ms > 0 && !s.outcome ? ((s.steps - (s.step || 0)) * s.step_ms) / 1000 : null;
  tile("left", "Time left", left === null ? null : left <= 0 ? "none" : duration(left), left > 0 ? "until " + clock(Date.now() / 1000 + left) : "");
  tile("step", "Time of a step", s.step_ms > 0 ? duration(s.step_ms / 1000) : "–");
  tile("shards", "Shards a second", s.shards_per_s > 0 ? number(s.shards_per_s) : "–");
  tile("tokens", "Tokens a second", s.tokens_per_s > 0 ? number(s.tokens_per_s) : null);
  tile("busy", "Efficiency", busy === null ? null : percent(busy), "of the members' time is in shards");
  tile("members", "Members", whole(s.members), gone > 0 ? gone + " gone" : peers.length > s.members ? peers.length - s.members + " more known" : "");
  tile("leader", "Leader", s.view_number > 0 ? s.leader_name || shortId(s.leader) : "none", s.view_number > 0 ? "view " + s.view_number : "");
  const c = s.counters || {};
  tile("repaired", "Shards repaired", whole(c.shards_repaired), c.steps_repaired > 0 ? "in " + count(c.steps_repaired, "step") : "");
  tile("checkpoint", "Last checkpoint", s.checkpoint_step >= 0 ? "step " + whole(s.checkpoint_step) : "none", duration(s.checkpoint_age_s) + (s.checkpoint_step >= 0 ? " ago" : " since the start"));
  tile("memory", "Memory of this peer", bytes(s.rss_bytes), "up for " + duration(s.uptime_s));
  const energy = flockEnergy();
  tile("energy", "Energy", energy.joules > 0 ? (energy.joules < 3.6e5 ? number(energy.joules, 4) + " J" : number(energy.joules / 3.6e6, 4) + " kWh") : null,
    [energy.watts > 0 ? number(energy.watts, 3) + " W now" : "", energy.estimated ? "partly estimated" : "", "peers that tell"].filter(Boolean).join(", "));
  const report = keyValues(s.report, 4);
  tile("report", "Last step", report || null, "", "wide");
  const evaluation = keyValues(s.evaluation);
  tile("evaluation", "Last evaluation", evaluation || null, evaluation ? "after step " + whole(s.evaluation_step) : "", "wide");
}

function flockEnergy() {
  const sum = { joules: 0, watts: 0, estimated: false };
  for (const peer of Object.values(known.peers)) {
    sum.joules += card(peer).joules || 0;
    sum.watts += card(peer).watts || 0;
    sum.estimated ||= card(peer).energy_estimated === true;
  }
  return sum;
}

function showHealth(s) {
  const health = $("health");
  let kind = "good", text = "✓ " + (s.phase || "computing");
  if (s.outcome) [kind, text] = [endKind(s), "■ " + s.outcome];
  else if (s.phase === undefined) [kind, text] = ["warn", "■ starting"];
  else if (!s.healthy) [kind, text] = ["warn", "▲ " + (s.phase || "waiting")];
  setText(health, text);
  health.className = "pill " + kind;
  const troubles = [];
  if (s.corruption) troubles.push("Corruption " + s.corruption);
  if (s.disk_writable === false) troubles.push("The disk of this peer fails: checkpoints cannot be written or read here.");
  for (const peer of Object.values(known.peers))
    if (card(peer).disk_writable === false && !peer.self) troubles.push("The disk of peer " + nameOf(peer.id) + " fails.");
  $("trouble").hidden = troubles.length === 0;
  setText($("trouble"), troubles.join(" "));
}

/* How the peer has ended, at the top: that it does not answer any more is no fault then. */
const endWords = {
  done: "The job is done",
  stopped: "The job was stopped. The same command goes on from its last checkpoint",
  left: "This peer has left its flock, as it was asked to; the others go on",
  alone: "This peer has ended, as it was asked to. The same command goes on from its last checkpoint",
};

const endKind = (s) => (s.outcome === "done" ? "good" : s.outcome in endWords ? "warn" : "bad");

function showEnd(s) {
  const end = $("end");
  end.hidden = !s.outcome;
  if (!s.outcome) return;
  const last = events.filter((e) => e.event === "done").pop() || {};
  const facts = [endWords[s.outcome === "left" && last.peers < 2 ? "alone" : s.outcome] || "This peer has ended: " + s.outcome, s.reason && s.outcome !== "done" ? s.reason : ""];
  facts.push((s.steps > 0 && s.step < s.steps ? whole(s.step) + " of " + whole(s.steps) : whole(s.step)) + " steps" + (last.seconds > 0 ? " in " + duration(last.seconds) : ""));
  const summary = keyValues(last.summary);
  facts.push(summary ? "Result: " + summary : "", last.state ? "Hash of the state: " + last.state : "");
  setText(end, "■ " + facts.filter(Boolean).join(". ") + ".");
  end.className = endKind(s);
}

function showMembers() {
  const members = Object.values(known.peers).filter((p) => p.member).sort((a, b) => a.id.localeCompare(b.id));
  const texts = members.map((p) => nameOf(p.id, p.name) + (card(p).host ? " on host " + card(p).host : "") + ", at " + p.address + (card(p).http ? ", page at " + card(p).http : ""));
  if (texts.join("\n") !== [...$("member-list").children].map((item) => item.textContent).join("\n"))
    $("member-list").replaceChildren(...texts.map((text) => make("li", {}, text)));
}

function showOverview() {
  const s = known.state, step = s.step || 0;
  setText($("job"), s.job || "godwit");
  setText($("where"), "seen from " + (s.name || "a peer") + " (" + shortId(s.self || "") + "), cluster " + (s.cluster || "") + (s.dir ? ", " + s.dir : ""));
  setText($("what"), "Job " + (s.job || "?") + " (" + shortId(s.job_id || "") + "), " + (s.steps > 0 ? whole(s.steps) + " steps" : "without an end") + (s.parent ? ", goes on from step " + whole(s.parent.step) + " of job " + shortId(s.parent.job_id) : "") + ". This peer computes with " + (s.device || "?").split(";")[0] + ", " + count(s.workers || 0, "worker") + ".");
  const part = s.steps > 0 ? Math.min(1, step / s.steps) : 0;
  $("bar").hidden = !(s.steps > 0);
  $("bar").firstElementChild.style.width = 100 * part + "%";
  $("bar").setAttribute("aria-valuenow", String(Math.floor(100 * part)));
  const loading = s.loading_step >= 0 && s.loading_step !== undefined ? ", fetching the state of step " + whole(s.loading_step) : "";
  setText($("progress-text"), s.step === undefined ? "No state yet" + loading : "Step " + whole(step) + (s.steps > 0 ? " of " + whole(s.steps) + ", " + percent(part) : "") + loading);
  document.title = (s.outcome ? s.outcome + ": " : s.steps > 0 ? Math.floor(100 * part) + " % " : "") + (s.job || "godwit") + " – godwit";
  showHealth(s);
  showEnd(s);
  showMembers();
  showTiles(s);
  setText($("view-now"), s.view_number > 0 ? "View " + s.view_number + ": " + count(s.members, "member") + ", led by " + nameOf(s.leader, s.leader_name) + "." : "This peer is in no view.");
  setText($("foot"), "godwit " + (s.version || "") + ", process " + (s.pid || "?") + " on " + (s.listen || "?") + ", boot " + (s.boot || "?"));
}

/* Checkpoints. */

let checkpointText = "";

function showCheckpoints() {
  const s = known.state, list = s.checkpoints || [];
  const holders = (step) => Object.values(known.peers).filter((p) => card(p).checkpoint_step === step && card(p).checkpoint_chunks_held > 0)
    .map((p) => (p.name || "") + " (" + shortId(p.id) + ") " + card(p).checkpoint_chunks_held + " of " + card(p).checkpoint_chunks).join(", ");
  const rows = list.map((c) => [whole(c.step), c.complete ? "✓ complete" : c.away ? "▲ parts are with peers that are gone" : "… not known to be complete", String(c.root).slice(0, 8), c.held + " of " + c.chunks, holders(c.step) || "–"]);
  const text = JSON.stringify(rows);
  $("no-checkpoints").hidden = rows.length > 0;
  $("checkpoint-table").hidden = rows.length === 0;
  const best = s.best;
  $("best").hidden = !best;
  if (best) setText($("best"), "Best by " + best.by + ": " + (best.value === undefined ? "no evaluation yet" : number(best.value, 6) + " at step " + whole(best.step)) + (best.kept_step > 0 ? ", kept as the checkpoint of step " + whole(best.kept_step) : ""));
  if (text === checkpointText) return;
  checkpointText = text;
  const titles = [...$("checkpoint-table").tHead.rows[0].cells].map((c) => c.textContent);
  $("checkpoint-table").tBodies[0].replaceChildren(...rows.map((cells) => make("tr", {}, ...cells.map((c, i) => make("td", { "data-label": titles[i] }, c)))));
}

/* Curves. */

const charts = new Map(); /* key -> Chart */
let zoom = null; /* [from, to] that the user has chosen; null: none */
let cursor = null;

function rangeNow() {
  if (zoom !== null) return zoom;
  const choice = Number($("range").value), last = known.series.last;
  if (choice === 0 || last === 0) return null;
  return [choice > 0 ? Math.max(1, Math.floor(last * (1 - choice))) : Math.max(1, last + choice + 1), last];
}

const hooks = {
  options: () => ({ log: $("log-scale").checked, smoothing: Number($("smoothing").value), range: rangeNow() }),
  zoom(from, to) {
    if (to - from < 2) return;
    zoom = [from, to];
    $("reset-zoom").disabled = false;
    drawAll();
    readCurvesSoon(50);
  },
  reset() {
    zoom = null;
    $("reset-zoom").disabled = true;
    drawAll();
    readCurvesSoon(50);
  },
  moved(step) {
    cursor = step;
    for (const chart of charts.values()) {
      chart.cursor = cursor;
      chart.draw();
    }
  },
};

function drawAll() {
  for (const chart of charts.values()) chart.draw();
}

const runTitles = { ms: "time of a step, ms", members: "members", shards_per_s: "shards a second", tokens_per_s: "tokens a second" };

/* Puts the curves into charts: one for each key, with its values in training and in evaluations. */
function showCurves() {
  const keys = new Map();
  for (const name of Object.keys(curves)) {
    const at = name.indexOf("/"), where = name.slice(0, at), key = name.slice(at + 1);
    const id = where === "run" ? "run " + key : key;
    if (!keys.has(id)) keys.set(id, {});
    keys.get(id)[where === "evaluate" ? "evaluate" : "train"] = curves[name];
  }
  const order = [...keys.keys()].sort((a, b) => a.startsWith("run ") - b.startsWith("run ") || (b === "loss") - (a === "loss"));
  for (const [id, chart] of charts)
    if (!keys.has(id)) {
      chart.figure.remove();
      charts.delete(id);
    }
  for (const id of order) {
    if (!charts.has(id)) {
      charts.set(id, new Chart(id.startsWith("run ") ? runTitles[id.slice(4)] || id.slice(4) : id, hooks));
      for (const other of order) if (charts.has(other)) $("charts").append(charts.get(other).figure);
    }
    charts.get(id).set(keys.get(id).train || null, keys.get(id).evaluate || null);
  }
  $("no-curves").hidden = keys.size > 0;
}

/* Columns that are left out are those of single steps. */
function wholeColumns(c) {
  if (c.end === undefined) return { begin: c.begin, end: c.begin.slice(), min: c.last.slice(), max: c.last.slice(), mean: c.last };
  return { begin: c.begin, end: c.end, min: c.min, max: c.max, mean: c.mean };
}

let reading = false, readAgain = false, readTimer = null, readAt = 0;

function readCurvesSoon(ms) {
  if (readTimer !== null) return;
  readTimer = setTimeout(() => {
    readTimer = null;
    readCurves();
  }, ms);
}

async function readCurves() {
  if (reading) {
    readAgain = true;
    return;
  }
  reading = true;
  readAt = Date.now();
  const range = rangeNow(), query = new URLSearchParams({ points: "600" });
  if (range !== null) {
    query.set("from", String(range[0]));
    query.set("to", String(range[1]));
  }
  try {
    const answer = await fetch("api/series?" + query, { cache: "no-store" });
    if (answer.ok) {
      const got = await answer.json();
      const before = curves;
      curves = {};
      for (const [name, c] of Object.entries(got.series)) {
        curves[name] = wholeColumns(c);
        if (range === null && got.cuts === known.series.cuts && name in before) keepNewer(curves[name], before[name]);
      }
      known.series.last = Math.max(known.series.last, got.last);
      showCurves();
    } else readCurvesSoon(2000);
  } catch {
    /* The peer is away; the stream tells when it is back. */
  }
  reading = false;
  if (readAgain) {
    readAgain = false;
    readCurvesSoon(200);
  }
}

/* Keeps the points that the stream has brought while the answer was under way. */
function keepNewer(have, before) {
  const last = have.end.length > 0 ? have.end[have.end.length - 1] : 0;
  for (let i = 0; i < before.begin.length; i++) {
    if (before.begin[i] <= last) continue;
    for (const column of ["begin", "end", "min", "max", "mean"]) have[column].push(before[column][i]);
  }
}

/* Appends the points of new steps, which take the place of those that they overlap. */
function addPoints(news) {
  let tooMany = false;
  for (const [name, change] of Object.entries(news)) {
    const c = wholeColumns(change);
    if (c.begin.length === 0) continue;
    if (!(name in curves)) curves[name] = { begin: [], end: [], min: [], max: [], mean: [] };
    const have = curves[name];
    let keep = have.begin.length;
    while (keep > 0 && have.end[keep - 1] >= c.begin[0]) keep--;
    for (const column of ["begin", "end", "min", "max", "mean"]) {
      have[column].length = keep;
      for (const value of c[column]) have[column].push(value);
    }
    tooMany ||= have.begin.length > MOST_POINTS;
  }
  return tooMany;
}

function takeSeries(series) {
  const again = series.cuts !== known.series.cuts;
  known.series.last = series.last;
  known.series.cuts = series.cuts;
  if (again) readCurvesSoon(100);
  else if (zoom === null && series.new !== undefined) {
    const tooMany = addPoints(series.new);
    if (tooMany) readCurvesSoon(Math.max(100, 5000 - (Date.now() - readAt)));
    for (const name of Object.keys(curves)) {
      if (curves[name].begin.length <= 3 * MOST_POINTS) continue; /* the peer does not answer; the oldest go */
      for (const column of Object.values(curves[name])) column.splice(0, MOST_POINTS);
    }
    showCurves();
  }
}

/* The stream. */

let source = null, heard = 0, lostAt = null;

function takeWhole(data) {
  const other = known.boot !== data.boot || known.state.self !== data.state.self;
  known = { boot: data.boot, state: data.state, peers: data.peers, series: data.series };
  dropNulls(known.state);
  dropNulls(known.peers);
  events = [];
  if (other) {
    lastLine = 0;
    $("log-list").replaceChildren();
  }
  addEvents(data.events);
  showEvents();
  addLines(data.log);
  showAll();
  readCurves();
}

/* In the state null means "not known", as what is missing does. */
function dropNulls(object) {
  for (const [key, value] of Object.entries(object)) {
    if (value === null) delete object[key];
    else if (typeof value === "object") dropNulls(value);
  }
}

function takeChange(data) {
  if (data.state !== undefined) patch(known.state, data.state);
  if (data.peers !== undefined) patch(known.peers, data.peers);
  if (data.events !== undefined) addEvents(data.events);
  if (data.log !== undefined) addLines(data.log);
  if (data.series !== undefined) takeSeries(data.series);
  showAll();
}

function showAll() {
  showOverview();
  showPeers();
  showCheckpoints();
}

function lost() {
  if (known.state.outcome) return;
  if (lostAt === null) lostAt = new Date();
  const away = $("away");
  away.hidden = false;
  setText(away, "✕ This peer has not answered since " + lostAt.toLocaleTimeString("en-GB") + ". What is shown is from then; the page goes on when the peer is back. Any other peer of the flock with --http shows the same.");
  const health = $("health");
  setText(health, "✕ no answer");
  health.className = "pill bad";
}

function found() {
  heard = Date.now();
  if (lostAt === null) return;
  lostAt = null;
  $("away").hidden = true;
}

function connect() {
  if (source !== null) source.close();
  source = new EventSource("api/stream");
  heard = Date.now();
  const taker = (take) => (event) => {
    found();
    take(JSON.parse(event.data));
  };
  source.addEventListener("whole", taker(takeWhole));
  source.addEventListener("change", taker(takeChange));
  source.addEventListener("error", lost);
}

/* The browser gives up where the answer is an error, and never where the other side is silent. */
function watch() {
  const silent = Date.now() - heard > SILENT_MS;
  if (silent) lost();
  if (silent || (source !== null && source.readyState === EventSource.CLOSED && Date.now() - heard > 2000)) connect();
}

/* The theme: that of the system, or the user's choice. */

const themes = ["auto", "light", "dark"];
const dark = window.matchMedia("(prefers-color-scheme: dark)");

function chosenTheme() {
  try {
    const theme = localStorage.getItem("theme");
    return themes.includes(theme) ? theme : "auto";
  } catch {
    return "auto";
  }
}

function showTheme() {
  const theme = chosenTheme();
  document.documentElement.dataset.theme = theme === "auto" ? (dark.matches ? "dark" : "light") : theme;
  setText($("theme"), "Theme: " + theme);
  drawAll();
}

function begin() {
  showTheme();
  dark.addEventListener("change", showTheme);
  $("theme").addEventListener("click", () => {
    try {
      localStorage.setItem("theme", themes[(themes.indexOf(chosenTheme()) + 1) % themes.length]);
    } catch {
      /* A browser that keeps nothing has the system's theme. */
    }
    showTheme();
  });
  makePeerHead();
  for (const id of ["smoothing", "log-scale"]) $(id).addEventListener("input", () => {
    setText($("smoothing-value"), $("smoothing").value);
    drawAll();
  });
  $("range").addEventListener("change", () => {
    hooks.reset();
    readCurvesSoon(0);
  });
  $("reset-zoom").addEventListener("click", () => hooks.reset());
  $("timeline-filter").addEventListener("change", showEvents);
  connect();
  setInterval(watch, 1000);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    readCurvesSoon(0);
    watch();
  });
}

begin();
