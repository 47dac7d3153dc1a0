
// Tables that sort by a column, and show the rows that a filter lets through: `sim`, `>70`, `<2.5`.
for (const box of document.querySelectorAll(".sortable")) {
  const heads = [...box.querySelectorAll("thead th")];
  const body = box.querySelector("tbody");
  const rows = [...body.rows];
  const words = (row, column) => row.cells[column].textContent.trim();
  const number = (text) => parseFloat(text.replace(/,/g, "").replace("\u2212", "-"));

  const sort = (column) => {
    const falls = heads[column].getAttribute("aria-sort") !== "descending";
    for (const head of heads) head.removeAttribute("aria-sort");
    heads[column].setAttribute("aria-sort", falls ? "descending" : "ascending");
    const order = (one, other) => {
      const [a, b] = [words(one, column), words(other, column)];
      const [x, y] = [number(a), number(b)];
      if (isNaN(x) !== isNaN(y)) return isNaN(x) ? 1 : -1; // what has no figure comes last, whichever way
      const by = isNaN(x) ? b.localeCompare(a) : y - x;
      return falls ? by : -by;
    };
    body.append(...[...rows].sort(order));
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.title = "sort";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(column));
    head.append(button);
  });

  const filter = document.createElement("p");
  const select = document.createElement("select");
  const input = document.createElement("input");
  const shown = document.createElement("output");
  filter.className = "filter";
  select.setAttribute("aria-label", "column to filter by");
  input.type = "search";
  input.placeholder = "filter: text, >70, <5";
  input.setAttribute("aria-label", "rows to show: a text, or a bound such as >70");
  heads.forEach((head, column) => select.add(new Option(head.textContent, column)));
  const show = () => {
    const [, bound, rest] = input.value.trim().match(/^([<>]?)\s*(.*)$/);
    for (const row of rows) {
      const text = words(row, select.value);
      const value = number(text);
      const holds = { ">": value > number(rest), "<": value < number(rest), "": text.toLowerCase().includes(rest.toLowerCase()) };
      row.hidden = rest !== "" && !holds[bound];
    }
    const left = rows.filter((row) => !row.hidden).length;
    shown.textContent = left < rows.length ? `${left} of ${rows.length} rows` : "";
  };
  input.addEventListener("input", show);
  select.addEventListener("change", show);
  filter.append(select, input, shown);
  if (rows.length > 1) box.prepend(filter);
}
