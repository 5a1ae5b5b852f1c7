// Refreshes the changing part of a page; the page is complete without it.
const part = document.querySelector("[data-poll]");
const note = document.getElementById("poll-note");

async function refresh() {
  if (document.hidden) return;
  try {
    const answer = await fetch(part.dataset.poll, { headers: { Accept: "text/html" } });
    if (answer.status === 401) {
      location.reload(); // the session ended: the server sends us to the login page
      return;
    }
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    part.replaceChildren(...fresh.body.childNodes);
    document.title = `${part.querySelector(".word").textContent.trim()} · VEEN`;
    note.textContent = "";
  } catch {
    note.textContent = "This page cannot reach the console; what it shows may be old.";
  }
}

if (part) {
  setInterval(refresh, 1000 * Number(part.dataset.pollS));
  document.addEventListener("visibilitychange", refresh);
}
