// Before anything is drawn: otherwise a dark page would flash white, and a dense one would jump.
(function () {
  var kept = {};
  try {
    kept = JSON.parse(localStorage.getItem("penstock.preferences") || "{}");
  } catch (error) {
    kept = {};
  }
  var page = document.documentElement.dataset;
  if (kept.theme === "light" || kept.theme === "dark") page.theme = kept.theme;
  if (kept.density === "compact") page.density = "compact";
})();
