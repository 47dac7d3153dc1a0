// The search box. Everything is loaded as scripts, which works from file:// as well as from a server.
document.addEventListener("DOMContentLoaded", () => {
  const FEWEST_LETTERS = 2;
  const BEFORE = 60;
  const AFTER = 140;
  const box = document.getElementById("mkdocs-search-query");
  const list = document.getElementById("mkdocs-search-results");
  if (!box || !list) return;
  let ready = null;

  const load = (name) =>
    new Promise((done, failed) => {
      const script = document.createElement("script");
      script.src = `${base_url}/search/${name}`;
      script.onload = done;
      script.onerror = failed;
      document.head.append(script);
    });

  const start = async () => {
    await Promise.all([load("lunr.js"), load("pages.js")]);
    const pages = new Map(window.searchedPages.docs.map((page) => [page.location, page]));
    const index = lunr(function () {
      this.field("title", { boost: 5 });
      this.field("text");
      this.ref("location");
      pages.forEach((page) => this.add(page));
    });
    return { index, pages };
  };

  const find = ({ index, pages }, words) =>
    index
      .query((query) => {
        for (const word of words) {
          query.term(word, { boost: 10 });
          query.term(word, { wildcard: lunr.Query.wildcard.TRAILING });
        }
      })
      .map((found) => pages.get(found.ref));

  const excerpt = (text, words) => {
    const places = words.map((word) => text.toLowerCase().indexOf(word)).filter((place) => place >= 0);
    const from = Math.max(0, (places.length ? Math.min(...places) : 0) - BEFORE);
    return (from ? "… " : "") + text.slice(from, from + BEFORE + AFTER).trim() + " …";
  };

  const shown = (page, words) => {
    const article = document.createElement("article");
    const link = document.createElement("a");
    link.href = `${base_url}/${page.location}`;
    link.textContent = page.title;
    const heading = document.createElement("h3");
    heading.append(link);
    const text = document.createElement("p");
    text.textContent = excerpt(page.text, words);
    article.append(heading, text);
    return article;
  };

  const search = async () => {
    const typed = box.value.trim();
    if (typed.length < FEWEST_LETTERS) return list.replaceChildren();
    ready ??= start();
    const loaded = await ready;
    if (typed !== box.value.trim()) return; // more was typed meanwhile
    const words = typed.toLowerCase().split(/[\s\-:~^*+]+/).filter(Boolean);
    const found = find(loaded, words);
    list.replaceChildren(...found.slice(0, 30).map((page) => shown(page, words)));
    if (!found.length) list.textContent = list.dataset.noResultsText;
  };

  box.addEventListener("input", search);
  box.form.addEventListener("submit", (event) => event.preventDefault()); // Enter would load the page again
  list.addEventListener("click", (event) => {
    // a result on this very page only changes the address: without this its window would stay in front
    if (event.target.closest("a")) bootstrap.Modal.getInstance(document.getElementById("mkdocs_search_modal"))?.hide();
  });
});

// In tables of more than two columns, cells of prose keep a width that can be read on a phone; the table then scrolls.
for (const cell of document.querySelectorAll('[role="main"] td')) {
  if (cell.parentElement.cells.length > 2 && cell.textContent.length > 30) cell.classList.add("prose");
}
