"""What can be said of any page by looking at it: axe, sideways scroll, facts that are cut, targets, duplicate ids."""

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
AXE = Axe()

MEASURES = """
() => {
  const said = [], wide = document.documentElement;
  if (wide.scrollWidth > wide.clientWidth) {
    const past = e => e.getBoundingClientRect().right > wide.clientWidth + 1;
    const widest = [...document.body.querySelectorAll("*")].filter(past);
    said.push(`scrolls sideways: ${widest.slice(0, 3).map(e => e.outerHTML.slice(0, 120)).join(" | ")}`);
  }
  for (const fact of document.querySelectorAll("main :is(dd, dt, td, th, h1, li, p, blockquote, pre)")) {
    const style = getComputedStyle(fact);
    const cut = style.textOverflow === "ellipsis" || style.webkitLineClamp !== "none";
    if (cut) said.push(`cut: ${fact.outerHTML.slice(0, 120)}`);
    if (style.display !== "inline" && fact.scrollWidth > fact.clientWidth + 1 && !fact.closest(".hidden, .scope"))
      said.push(`clipped: ${fact.outerHTML.slice(0, 160)}`);
  }
  const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
  const twice = ids.filter((id, at) => ids.indexOf(id) !== at);
  if (twice.length) said.push(`ids twice: ${twice}`);
  if (document.querySelectorAll("h1").length !== 1) said.push("not one h1");
  for (const label of document.querySelectorAll("[aria-labelledby], [aria-describedby], label[for]"))
    for (const name of ["aria-labelledby", "aria-describedby", "for"])
      for (const id of (label.getAttribute(name) || "").split(" ").filter(Boolean))
        if (!document.getElementById(id)) said.push(`${name} leads nowhere: ${id}`);
  for (const link of document.querySelectorAll("a[href^='#']"))
    if (!document.getElementById(link.getAttribute("href").slice(1))) said.push(`leads nowhere: ${link.outerHTML}`);
  const focus = document.activeElement;
  const focused = focus && focus.matches("button, input, textarea, select");
  if (focused) said.push(`has focus after load: ${focus.outerHTML.slice(0, 100)}`);
  return said;
}
"""


def faults(page: Page, *, axe: list[str] | None = TAGS) -> list[str]:
    """Everything wrong with the page as it stands, in words. `axe`: its rules' tags, or names of rules."""
    found = page.evaluate(MEASURES)
    if axe:
        for broken in AXE.run(page, options={"runOnly": axe, "resultTypes": ["violations"]}).response["violations"]:
            where = "; ".join(f"{node['html'][:140]} {node['failureSummary'][:200]}" for node in broken["nodes"][:2])
            found.append(f"axe {broken['id']}: {broken['help']}: {where}")
    return found
