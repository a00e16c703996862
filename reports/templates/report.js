(() => {
  const root = document.documentElement, tools = document.querySelector(".tools");
  const cells = [...document.querySelectorAll("details.cell")];
  const button = (text, act) => {
    const b = document.createElement("button");
    b.type = "button"; b.textContent = text; b.addEventListener("click", () => act(b)); tools.append(b);
  };
  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  button(dark() ? "Light" : "Dark", b => { root.dataset.theme = dark() ? "light" : "dark"; b.textContent = dark() ? "Light" : "Dark"; });
  if (cells.length) button("Open all", b => {
    const open = b.textContent === "Open all";
    cells.forEach(c => { c.open = open; }); b.textContent = open ? "Close all" : "Open all";
  });
  const reach = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const cell = target && target.closest("details.cell");
    if (cell) { cell.open = true; cell.scrollIntoView(); }
  };
  addEventListener("hashchange", reach); reach();
  let shut = [];
  addEventListener("beforeprint", () => { shut = cells.filter(c => !c.open); shut.forEach(c => { c.open = true; }); });
  addEventListener("afterprint", () => shut.forEach(c => { c.open = false; }));
})();
