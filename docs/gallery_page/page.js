// Filters the entries by words and by what is chosen; "/" goes to the search.
const form = document.getElementById("filter");
const articles = [...document.querySelectorAll("article")];
const sections = [...document.querySelectorAll("main section")];
const inIndex = new Map([...document.querySelectorAll("nav a")].map((a) => [a.hash.slice(1), a.parentElement]));

function fits(article) {
  const { words, kind, norming, verdict } = form.elements;
  return words.value.toLowerCase().split(/\s+/).every((word) => article.dataset.words.includes(word))
    && (!kind.value || article.parentElement.dataset.kind === kind.value)
    && (!norming.value || article.dataset.norming === norming.value)
    && (!verdict.value || article.dataset.verdict === verdict.value);
}

function filter() {
  for (const article of articles) {
    article.hidden = !fits(article);
    inIndex.get(article.id).hidden = article.hidden;
  }
  for (const section of sections) section.hidden = !section.querySelector("article:not([hidden])");
  for (const group of document.querySelectorAll("nav > div")) group.hidden = !group.querySelector("li:not([hidden])");
  const shown = articles.filter((article) => !article.hidden).length;
  form.elements.count.value = `${shown} of ${articles.length} entries`;
}

// A link leads to its entry even if the filter hides it.
function reveal() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target && target.hidden) form.reset();
  if (target) target.scrollIntoView();
}

for (const [name, value] of new URLSearchParams(location.search)) {
  if (form.elements[name] && name !== "count") form.elements[name].value = value;
}
form.addEventListener("input", filter);
form.addEventListener("reset", () => setTimeout(() => { filter(); }));
addEventListener("hashchange", () => { reveal(); setTimeout(reveal); });
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  event.preventDefault();
  form.elements.words.focus();
});
filter();
