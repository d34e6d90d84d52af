'use strict';
// Hover values and hiding of lines. Without script the page shows the same plots and numbers.
(() => {
  const data = document.getElementById('data');
  const points = data ? JSON.parse(data.textContent).points : [];
  // By name: a variant is hidden in all figures.
  const hidden = new Set();
  const rate = v => (v / 1e6).toFixed(v >= 99.95e6 ? 0 : v >= 9.995e6 ? 1 : 2);
  const time = ns => ns == null ? '-' : ns >= 1e9 ? (ns / 1e9).toPrecision(3) + ' s'
    : ns >= 1e6 ? (ns / 1e6).toPrecision(3) + ' ms' : (ns / 1e3).toPrecision(3) + ' µs';
  const text = (tag, content) => {
    const e = document.createElement(tag);
    e.textContent = content;
    return e;
  };

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

  for (const figure of data ? document.querySelectorAll('figure[data-value]') : []) {
    const svg = figure.querySelector('svg');
    if (svg.dataset.x === undefined) continue;
    const [left, top, width, height] = svg.dataset.plot.split(' ').map(Number);
    const places = svg.dataset.x.split(' ').map(place => place.split(':').map(Number));
    const cursor = document.createElementNS('http://www.w3.org/2000/svg', 'path');
    cursor.setAttribute('class', 'cursor');
    const tip = text('div', '');
    tip.className = 'tip';
    tip.hidden = true;
    svg.append(cursor);
    figure.append(tip);
    const value = p => figure.dataset.value === 'goodput' ? p.goodput_bps : -(p.block_median_ns ?? Infinity);
    const colour = name => {
      const paints = [...svg.querySelectorAll('.series')].filter(s => s.dataset.name === name)
        .flatMap(s => [...s.querySelectorAll('[stroke], [fill]')])
        .flatMap(e => [e.getAttribute('stroke'), e.getAttribute('fill')]);
      return paints.find(paint => paint && paint.startsWith('var(--s')) ?? 'none';
    };
    const hide = () => { tip.hidden = true; cursor.setAttribute('d', ''); };
    svg.addEventListener('pointerleave', hide);
    svg.addEventListener('pointermove', e => {
      const at = new DOMPoint(e.clientX, e.clientY).matrixTransform(svg.getScreenCTM().inverse());
      if (at.x < left || at.x > left + width || at.y < top || at.y > top + height) return hide();
      const [n, x] = places.reduce((a, b) => Math.abs(b[1] - at.x) < Math.abs(a[1] - at.x) ? b : a);
      const here = points.filter(p => p.servers === n && !hidden.has(p.variant))
        .sort((a, b) => value(b) - value(a));
      const table = document.createElement('table');
      for (const p of here) {
        const row = table.insertRow(), name = row.insertCell();
        const swatch = document.createElement('i');
        swatch.style.background = colour(p.variant);
        name.append(swatch, p.variant);
        const ci = p.goodput_ci95_bps == null ? '' : ' ± ' + rate(p.goodput_ci95_bps);
        row.insertCell().textContent = rate(p.goodput_bps) + ci + ' Mb/s';
        row.insertCell().textContent = (p.link_share * 100).toFixed(0) + ' %';
        row.insertCell().textContent = +p.timeouts.toFixed(1) + ' timeouts';
        row.insertCell().textContent = time(p.block_median_ns);
      }
      tip.replaceChildren(text('b', n === 1 ? '1 server' : n + ' servers'), table);
      tip.hidden = false;
      cursor.setAttribute('d', `M${x} ${top}v${height}`);
      const box = figure.getBoundingClientRect();
      const px = e.clientX - box.left, py = e.clientY - box.top;
      tip.style.left = (px + tip.offsetWidth + 24 > box.width ? Math.max(0, px - tip.offsetWidth - 16) : px + 16) + 'px';
      tip.style.top = py + 12 + 'px';
    });
  }
})();
