// A click on a column's head sorts its table. The page reads whole without this.
for (const head of document.querySelectorAll("thead th")) {
  const button = document.createElement("button");
  button.type = "button";
  button.append(...head.childNodes);
  head.append(button);
  button.addEventListener("click", () => {
    const table = head.closest("table"), body = table.tBodies[0], column = head.cellIndex;
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
    const missing = (text) => text === "" || text === "–";
    const order = (a, b) => {
      const x = value(a), y = value(b);
      if (missing(x) || missing(y)) return missing(x) - missing(y);
      const difference = x - y;
      return (up ? 1 : -1) * (Number.isNaN(difference) ? x.localeCompare(y) : difference);
    };
    body.append(...[...body.rows].sort(order));
  });
}
