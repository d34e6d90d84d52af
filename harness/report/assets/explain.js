// The viewer of connections: time and sequence, zoomed with the wheel, moved with the pointer. Points are
// in the order of time; what falls on one column of pixels is drawn once, so that a million packets stay usable.
(() => {
  const all = JSON.parse(document.getElementById('explained').textContent);
  const text = s => new DOMParser().parseFromString(s, 'text/html').documentElement.textContent;
  const [which, at] = ['which', 'at'].map(id => document.getElementById(id));
  const [main, low] = ['sequence', 'flight'].map(id => document.getElementById(id));
  const KINDS = ['sent', 'sent again', 'acknowledged', 'SACKed', 'window'];
  const COLOURS = ['--s0', '--s1', '--s2', '--s3', '--s4'];
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  let c, from, to;
  const unpack = c => {
    if (c.t) return c;
    const n = c.points.length / 5, p = c.points;
    Object.assign(c, { n, t: new Float64Array(n), packet: new Float64Array(n), kind: new Uint8Array(n), lo: new Float64Array(n), hi: new Float64Array(n), flight: new Float64Array(n) });
    let t = 0, packet = 0, una = 0, next = 0;
    c.top = 1;
    for (let i = 0; i < n; i++) {
      c.t[i] = t += p[5 * i]; c.packet[i] = packet += p[5 * i + 1];
      const kind = c.kind[i] = p[5 * i + 2], lo = c.lo[i] = p[5 * i + 3], hi = c.hi[i] = lo + p[5 * i + 4];
      if (kind == 0) next = Math.max(next, hi);
      if (kind == 2) una = Math.max(una, hi);
      c.flight[i] = Math.max(0, next - una);
      if (kind != 4) c.top = Math.max(c.top, hi);
    }
    c.end = Math.max(t, 1, ...c.gaps.slice(-1).map(g => g[0] + g[1]));
    c.points = null;
    return c;
  };
  // The first point at or after a time.
  const first = time => { let a = 0, b = c.n; while (a < b) { const m = (a + b) >> 1; if (c.t[m] < time) a = m + 1; else b = m; } return a; };
  const size = canvas => {
    const scale = window.devicePixelRatio || 1, w = canvas.clientWidth, h = +canvas.getAttribute('data-h') || canvas.height;
    canvas.setAttribute('data-h', h);
    canvas.width = w * scale; canvas.height = h * scale; canvas.style.height = h + 'px';
    const g = canvas.getContext('2d'); g.scale(scale, scale); g.clearRect(0, 0, w, h); g.font = '12px system-ui';
    return [g, w, h];
  };
  const unit = ns => { const [d, n] = ns >= 1e9 ? [1e9, 's'] : ns >= 1e6 ? [1e6, 'ms'] : ns >= 1e3 ? [1e3, 'us'] : [1, 'ns']; return +(ns / d).toPrecision(4) + ' ' + n; };
  let span;
  const draw = () => {
    const [g, w, h] = size(main), x = t => (t - from) / (to - from) * w;
    const a = Math.max(0, first(from) - 1), b = Math.min(c.n, first(to) + 1);
    let least = Infinity, most = 0;
    for (let i = a; i < b; i++) if (c.kind[i] != 4) { least = Math.min(least, c.lo[i]); most = Math.max(most, c.hi[i]); }
    if (most <= least) { least = 0; most = c.top; }
    const pad = (most - least) * .06 + 1; span = [least - pad, most + pad];
    const y = v => h - (v - span[0]) / (span[1] - span[0]) * h;
    c.gaps.forEach(([start, length, cause, lost]) => {
      const l = x(start), r = x(start + length);
      if (r < 0 || l > w) return;
      g.globalAlpha = lost ? .22 : .08; g.fillStyle = colour(lost ? '--s1' : '--faint'); g.fillRect(l, 0, Math.max(1, r - l), h); g.globalAlpha = 1;
      if (r - l > 60 && lost) { g.fillStyle = colour('--ink'); g.fillText(cause, Math.max(l, 0) + 4, 14, Math.min(r, w) - Math.max(l, 0) - 8); }
    });
    const drawn = KINDS.map(() => new Map());
    const steps = new Map();
    for (let i = a; i < b; i++) {
      const k = c.kind[i], column = Math.round(x(c.t[i]));
      if (k == 2 || k == 4) { steps.set(k * 1e6 + column, [k, column, c.hi[i]]); continue; }
      const seen = drawn[k].get(column);
      if (seen) { seen[0] = Math.min(seen[0], c.lo[i]); seen[1] = Math.max(seen[1], c.hi[i]); } else drawn[k].set(column, [c.lo[i], c.hi[i]]);
    }
    [4, 2].forEach(k => {
      g.strokeStyle = colour(COLOURS[k]); g.beginPath(); let last;
      [...steps.values()].filter(s => s[0] == k).sort((p, q) => p[1] - q[1]).forEach(([, column, v]) => { if (last === undefined) g.moveTo(column, y(v)); else g.lineTo(column, last); g.lineTo(column, last = y(v)); });
      g.stroke();
    });
    [0, 3, 1].forEach(k => { g.fillStyle = colour(COLOURS[k]); drawn[k].forEach(([lo, hi], column) => { const top = y(hi); g.fillRect(column - (k == 1 ? 1.5 : .75), top, k == 1 ? 3 : 1.5, Math.max(2, y(lo) - top)); }); });
    g.fillStyle = colour('--faint'); g.fillText(unit(from), 4, h - 4); g.textAlign = 'right'; g.fillText(unit(to), w - 4, h - 4); g.textAlign = 'left';
    KINDS.forEach((name, k) => { g.fillStyle = colour(COLOURS[k]); g.fillText(name, 60 + 95 * k, h - 4); });
    const [f, fw, fh] = size(low);
    let peak = 1; const columns = new Map();
    for (let i = a; i < b; i++) { const column = Math.round(x(c.t[i])); peak = Math.max(peak, c.flight[i]); columns.set(column, c.flight[i]); }
    f.strokeStyle = colour('--s0'); f.beginPath(); let level = fh;
    columns.forEach((v, column) => { f.lineTo(column, level); f.lineTo(column, level = fh - v / peak * (fh - 16)); });
    f.stroke(); f.fillStyle = colour('--faint'); f.fillText('in flight, up to ' + peak + ' B', 4, 12);
  };
  const show = (id, around) => {
    c = unpack(all.find(c => c.id == id) || all[0]); which.value = c.id; from = 0; to = c.end * 1.01;
    const gap = around && c.gaps.find(g => g[5] == around);
    if (gap) { from = Math.max(0, gap[0] - gap[1] * .5); to = gap[0] + gap[1] * 1.5; }
    draw();
  };
  all.forEach(c => which.add(new Option(text(c.id + ': ' + c.name), c.id)));
  which.onchange = () => show(which.value);
  document.getElementById('all').onclick = () => show(c.id);
  let held;
  [main, low].forEach(canvas => {
    canvas.onwheel = e => { e.preventDefault(); const m = from + (to - from) * e.offsetX / canvas.clientWidth, k = Math.exp(Math.sign(e.deltaY) * .25); if ((to - from) * k < 100) return; from = m - (m - from) * k; to = m + (to - m) * k; draw(); };
    canvas.ondblclick = () => show(c.id);
    canvas.onpointerdown = e => { held = [e.clientX, from, to]; canvas.setPointerCapture(e.pointerId); };
    canvas.onpointerup = () => held = null;
    canvas.onpointermove = e => {
      const w = canvas.clientWidth;
      if (held) { const d = (held[0] - e.clientX) / w * (held[2] - held[1]); from = held[1] + d; to = held[2] + d; draw(); return; }
      const time = from + (to - from) * e.offsetX / w, v = span[1] - (span[1] - span[0]) * e.offsetY / canvas.clientHeight;
      const gap = c.gaps.find(g => time >= g[0] && time <= g[0] + g[1]);
      let best, distance = Infinity;
      for (let i = Math.max(0, first(time - (to - from) / w * 6)), end = first(time + (to - from) / w * 6); i < end; i++) {
        if (c.kind[i] == 4) continue;
        const d = Math.abs(c.t[i] - time) / (to - from) + Math.abs((c.lo[i] + c.hi[i]) / 2 - v) / (span[1] - span[0]);
        if (d < distance) { distance = d; best = i; }
      }
      const packet = best !== undefined && canvas == main ? `packet ${c.packet[best]} at ${unit(c.t[best])}: ${KINDS[c.kind[best]]} ${c.lo[best]}–${c.hi[best]}. ` : '';
      at.textContent = packet + (gap ? `Gap of ${unit(gap[1])}: ${gap[2]}; ${gap[4]}` : '');
    };
  });
  document.querySelectorAll('tr[data-connection]').forEach(row => row.onclick = () => {
    if (!all.some(c => c.id == row.dataset.connection)) return;
    show(row.dataset.connection, row.dataset.gap); document.getElementById('viewer').scrollIntoView({ behavior: 'smooth' });
  });
  window.onresize = draw;
  show(all[0].id);
})();
