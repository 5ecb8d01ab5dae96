// A window that is chosen shows its services and the kinds of lines in it; a service shows only its own.
const data = JSON.parse(document.getElementById("data").textContent), box = document.getElementById("window");
const number = value => value.toLocaleString("en"), element = (name, text, kind) => {
  const made = document.createElement(name); if (text !== undefined) made.textContent = text; if (kind) made.className = kind; return made; };
const table = (heads, rows) => {
  const made = element("table"), head = made.appendChild(element("tr"));
  for (const [text, kind] of heads) head.appendChild(element("th", text, kind));
  for (const row of rows) { const line = made.appendChild(element("tr"));
    row.forEach((cell, at) => { const to = line.appendChild(element("td", undefined, heads[at][1]));
      to.append(cell instanceof Node ? cell : typeof cell === "number" ? number(cell) : cell); }); }
  const wide = element("div", undefined, "wide"); wide.append(made); return wide; };
const show = (chosen, service) => {
  document.querySelectorAll("g.chosen").forEach(each => each.classList.remove("chosen"));
  document.querySelectorAll(`g[data-window="${chosen}"]`).forEach(each => each.classList.add("chosen"));
  const [name, services] = data.windows[chosen], found = [];
  data.templates.forEach(([of, level, text, sample, counts]) => {
    if (counts[chosen] && (!service || of === service)) found.push([of, level, text, sample, counts[chosen]]); });
  found.sort((one, other) => other[4] - one[4]);
  const link = of => { const made = element("button", of); made.onclick = () => show(chosen, of === service ? "" : of); return made; };
  const kind = (text, sample) => { const made = element("details"), head = element("summary");
    head.append(element("code", text)); made.append(head, element("code", sample)); return made; };
  box.hidden = false;
  box.replaceChildren(element("h2", service ? `${name}, ${service}` : name),
    table([["service", "t"], ["lines"], ["requests"], ["errors"], ["warnings"]],
      services.filter(row => !service || row[0] === service).map(([of, ...rest]) => [link(of), ...rest])),
    element("p", found.length ? "" : "Nothing is known of the kinds of its lines."),
    table([["lines"], ["service", "t"], ["level", "t less"], ["kind of line, and one of them", "t"]],
      found.slice(0, 50).map(([of, level, text, sample, count]) => [count, of, level || "", kind(text, sample)])));
  location.hash = `w${chosen}`; };
document.addEventListener("click", event => { const group = event.target.closest("g[data-window]");
  if (group) { show(+group.dataset.window, ""); box.scrollIntoView({behavior: "smooth", block: "nearest"}); } });
const asked = /^#w([0-9]+)$/.exec(location.hash); if (asked && data.windows[+asked[1]]) show(+asked[1], "");
