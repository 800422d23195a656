// Filters the entries by words and by what is chosen; "/" goes to the search.
const form = document.getElementById("filter");
const articles = [...document.querySelectorAll("article")];
const sections = [...document.querySelectorAll("main section")];
const inIndex = new Map([...document.querySelectorAll("nav a")].map((a) => [a.hash.slice(1), a.parentElement]));

const nothing = document.getElementById("nothing");

// The words of a search stand anywhere in what is said of an entry, or among the field's names of what it has.
function holds(article, words) {
  const names = article.dataset.names.split(" ");
  return words.every((word) => article.dataset.words.includes(word) || names.includes(word));
}

const wordsOf = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);

function fits(article) {
  const { words, kind, norming, verdict } = form.elements;
  return holds(article, wordsOf(words.value))
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
  nothing.hidden = shown > 0;
  if (!shown) sayNothing(wordsOf(form.elements.words.value));
}

// Nothing fits: say so, and offer the nearest words with which something is found, or all entries of these words.
function sayNothing(words) {
  const held = words.filter((word) => !articles.some((article) => holds(article, [word])));
  const near = words.map((word) => (held.includes(word) ? nearest(word) : word)).filter(Boolean);
  const found = words.length && articles.some((article) => holds(article, near)) ? near.join(" ") : "";
  nothing.textContent = words.length ? `No entry has: ${words.join(" ")}. ` : "No entry is like this. ";
  const choose = (text, act) => {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", textContent: text });
    button.addEventListener("click", act);
    nothing.append(button, " ");
  };
  if (found && found === words.join(" ")) choose("Search in all entries", () => search(found));
  else if (found) choose(`Search for: ${found}`, () => search(found));
  choose("Show all entries", () => search(""));
}

function search(words) {
  form.reset();
  form.elements.words.value = words;
  filter();
}

// The word of the page that shares most pairs of letters with this one, if that is half of them.
function nearest(word) {
  const pairs = (text) => [...` ${text} `].slice(1).map((letter, n) => ` ${text} `[n] + letter);
  const own = pairs(word);
  const known = new Set(articles.flatMap((a) => `${a.id} ${a.dataset.words} ${a.dataset.names}`.match(/[a-z0-9-]{3,}/g)));
  let best = "", most = 0.5;
  for (const other of known) {
    const theirs = pairs(other), shared = own.filter((pair) => theirs.includes(pair)).length;
    const score = (2 * shared) / (own.length + theirs.length);
    if (score > most) [best, most] = [other, score];
  }
  return best;
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
