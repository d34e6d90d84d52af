'use strict';
// Hover values and hiding of lines. Without script the page shows the same plots and numbers.
(() => {
  const { variants, points } = JSON.parse(document.getElementById('data').textContent);
  const servers = [...new Set(points.map(p => p.servers))].sort((a, b) => a - b);
  const hidden = new Set();
  const rate = v => (v / 1e6).toFixed(v >= 99.95e6 ? 0 : v >= 9.995e6 ? 1 : 2);
  const time = ns => ns == null ? '-' : ns >= 1e9 ? (ns / 1e9).toPrecision(3) + ' s'
    : ns >= 1e6 ? (ns / 1e6).toPrecision(3) + ' ms' : (ns / 1e3).toPrecision(3) + ' µs';
  const text = (tag, content) => {
    const e = document.createElement(tag);
    e.textContent = content;
    return e;
  };

  for (const key of document.querySelectorAll('.key')) {
    const mine = key.dataset.variants.split(' ').filter(s => s !== '').map(Number);
    key.setAttribute('tabindex', '0');
    key.setAttribute('role', 'button');
    const toggle = () => {
      const hide = mine.some(v => !hidden.has(v));
      for (const v of mine) hide ? hidden.add(v) : hidden.delete(v);
      for (const s of document.querySelectorAll('.series'))
        s.classList.toggle('off', hidden.has(Number(s.dataset.variant)));
      for (const k of document.querySelectorAll('.key'))
        k.classList.toggle('off', k.dataset.variants.split(' ').every(v => hidden.has(Number(v))));
    };
    key.addEventListener('click', toggle);
    key.addEventListener('keydown', e => {
      if (e.key === 'Enter' || e.key === ' ') { e.preventDefault(); toggle(); }
    });
  }

  for (const figure of document.querySelectorAll('figure')) {
    const svg = figure.querySelector('svg');
    const [left, top, width, height] = svg.dataset.plot.split(' ').map(Number);
    const first = Math.log2(servers[0]), last = Math.log2(servers[servers.length - 1]);
    const x = n => last > first
      ? left + 14 + (width - 28) * (Math.log2(n) - first) / (last - first) : left + width / 2;
    const cursor = document.createElementNS('http://www.w3.org/2000/svg', 'path');
    cursor.setAttribute('class', 'cursor');
    const tip = text('div', '');
    tip.className = 'tip';
    tip.hidden = true;
    svg.append(cursor);
    figure.append(tip);
    const value = p => figure.dataset.value === 'goodput' ? p.goodput_bps : -(p.block_median_ns ?? Infinity);
    const colour = v => {
      const mark = svg.querySelector(`.series[data-variant="${v}"] [stroke^="var(--s"], .series[data-variant="${v}"] [fill^="var(--s"]`);
      if (!mark) return 'none';
      return [mark.getAttribute('stroke'), mark.getAttribute('fill')].find(c => c && c.startsWith('var(--s'));
    };
    const hide = () => { tip.hidden = true; cursor.setAttribute('d', ''); };
    svg.addEventListener('pointerleave', hide);
    svg.addEventListener('pointermove', e => {
      const at = new DOMPoint(e.clientX, e.clientY).matrixTransform(svg.getScreenCTM().inverse());
      if (at.x < left || at.x > left + width || at.y < top || at.y > top + height) return hide();
      const n = servers.reduce((a, b) => Math.abs(x(b) - at.x) < Math.abs(x(a) - at.x) ? b : a);
      const here = points.filter(p => p.servers === n && !hidden.has(variants.indexOf(p.variant)))
        .sort((a, b) => value(b) - value(a));
      const table = document.createElement('table');
      for (const p of here) {
        const row = table.insertRow(), name = row.insertCell();
        const swatch = document.createElement('i');
        swatch.style.background = colour(variants.indexOf(p.variant));
        name.append(swatch, p.variant);
        const ci = p.goodput_ci95_bps == null ? '' : ' ± ' + rate(p.goodput_ci95_bps);
        row.insertCell().textContent = rate(p.goodput_bps) + ci + ' Mb/s';
        row.insertCell().textContent = (p.link_share * 100).toFixed(0) + ' %';
        row.insertCell().textContent = +p.timeouts.toFixed(1) + ' timeouts';
        row.insertCell().textContent = time(p.block_median_ns);
      }
      tip.replaceChildren(text('b', n === 1 ? '1 server' : n + ' servers'), table);
      tip.hidden = false;
      cursor.setAttribute('d', `M${x(n)} ${top}v${height}`);
      const box = figure.getBoundingClientRect();
      const px = e.clientX - box.left, py = e.clientY - box.top;
      tip.style.left = (px + tip.offsetWidth + 24 > box.width ? Math.max(0, px - tip.offsetWidth - 16) : px + 16) + 'px';
      tip.style.top = py + 12 + 'px';
    });
  }
})();
