'use strict';
// Hiding of lines. Without script the page shows the same plots and numbers.
(() => {
  // By name: a variant is hidden in all figures.
  const hidden = new Set();
  const named = key => JSON.parse(key.dataset.names);
  const keys = [...document.querySelectorAll('.key')];
  const series = [...document.querySelectorAll('.series')];
  const there = new Set(series.map(s => s.dataset.name));
  for (const key of keys) {
    const mine = named(key).filter(name => there.has(name));
    if (mine.length === 0) continue;
    key.setAttribute('tabindex', '0');
    key.setAttribute('role', 'button');
    const toggle = () => {
      const hide = mine.some(name => !hidden.has(name));
      for (const name of mine) hide ? hidden.add(name) : hidden.delete(name);
      for (const s of series) s.classList.toggle('off', hidden.has(s.dataset.name));
      for (const k of keys) {
        const names = named(k);
        k.classList.toggle('off', names.length > 0 && names.every(name => hidden.has(name)));
      }
    };
    key.addEventListener('click', toggle);
    key.addEventListener('keydown', e => {
      if (e.key === 'Enter' || e.key === ' ') { e.preventDefault(); toggle(); }
    });
  }
})();
