// The viewer of connections: time and sequence, bytes in flight and round trips, zoomed with the wheel, moved
// with the pointer. Points are in the order of time; what falls on one column of pixels is drawn once.
(() => {
  const all = JSON.parse(document.getElementById('explained').textContent);
  const text = s => new DOMParser().parseFromString(s, 'text/html').documentElement.textContent;
  const [which, at, joined] = ['which', 'at', 'joined'].map(id => document.getElementById(id));
  const canvases = ['sequence', 'flight', 'rtt'].map(id => document.getElementById(id));
  const [main, low, trips] = canvases;
  const KINDS = ['sent', 'sent again', 'acknowledged', 'SACKed', 'window'];
  const COLOURS = ['--s0', '--s1', '--s2', '--s3', '--s4'];
  const STRIDE = 7;
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  let c, from, to;
  const unpack = c => {
    if (c.t) return c;
    const n = c.points.length / STRIDE, p = c.points, m = c.rtt.length / 2;
    const numbers = () => new Float64Array(n);
    Object.assign(c, { n, t: numbers(), until: numbers(), packet: numbers(), count: numbers(), kind: new Uint8Array(n), lo: numbers(), hi: numbers(), flight: numbers(), m, began: new Float64Array(m), took: new Float64Array(m) });
    let t = 0, packet = 0, una = 0, next = 0;
    c.top = 1;
    for (let i = 0; i < n; i++) {
      const o = STRIDE * i;
      c.t[i] = t += p[o]; c.until[i] = t + p[o + 1]; c.packet[i] = packet += p[o + 2]; c.count[i] = p[o + 3];
      const kind = c.kind[i] = p[o + 4], lo = c.lo[i] = p[o + 5], hi = c.hi[i] = lo + p[o + 6];
      if (kind == 0) next = Math.max(next, hi);
      if (kind == 2) una = Math.max(una, hi);
      c.flight[i] = Math.max(0, next - una);
      if (kind != 4) c.top = Math.max(c.top, hi);
    }
    c.end = Math.max(t, 1, ...c.gaps.slice(-1).map(g => g[0] + g[1]));
    for (let i = 0, began = 0; i < m; i++) { c.began[i] = began += c.rtt[2 * i]; c.took[i] = c.rtt[2 * i + 1]; }
    c.points = c.rtt = null;
    return c;
  };
  // The first of times in order that is not before one.
  const first = (times, time) => { let a = 0, b = times.length; while (a < b) { const m = (a + b) >> 1; if (times[m] < time) a = m + 1; else b = m; } return a; };
  // Points that may be seen, with those that began before and go on.
  const seen = (from, to) => [Math.max(0, first(c.t, from - 2 * c.joined) - 1), Math.min(c.n, first(c.t, to) + 1)];
  const size = canvas => {
    const scale = window.devicePixelRatio || 1, w = canvas.clientWidth, h = +canvas.getAttribute('data-h') || canvas.height;
    canvas.setAttribute('data-h', h);
    canvas.width = w * scale; canvas.height = h * scale; canvas.style.height = h + 'px';
    const g = canvas.getContext('2d'); g.scale(scale, scale); g.clearRect(0, 0, w, h); g.font = '12px system-ui';
    return [g, w, h];
  };
  const unit = ns => { const [d, n] = ns >= 1e9 ? [1e9, 's'] : ns >= 1e6 ? [1e6, 'ms'] : ns >= 1e3 ? [1e3, 'us'] : [1, 'ns']; return +(ns / d).toPrecision(4) + ' ' + n; };
  // The least and the most of each column.
  const columns = w => { const [lo, hi] = [1, -1].map(sign => new Float64Array(Math.ceil(w) + 1).fill(sign * Infinity)); return { lo, hi, add(x, a, b) { x = Math.round(x); if (x >= 0 && x < lo.length) { if (a < lo[x]) lo[x] = a; if (b > hi[x]) hi[x] = b; } } }; };
  // A line that keeps its height until there is another.
  const steps = (g, levels, y, level) => {
    g.beginPath();
    if (level !== undefined) g.moveTo(0, level = y(level));
    levels.hi.forEach((v, x) => { if (v == -Infinity) return; if (level === undefined) g.moveTo(x, y(v)); else g.lineTo(x, level); g.lineTo(x, level = y(v)); });
    if (level !== undefined) g.lineTo(levels.hi.length, level);
    g.stroke();
  };
  let span;
  const sequence = () => {
    const [g, w, h] = size(main), x = t => (t - from) / (to - from) * w, [a, b] = seen(from, to);
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
    const drawn = KINDS.map(() => columns(w));
    for (let i = a; i < b; i++) {
      const k = c.kind[i], l = x(c.t[i]), r = x(c.until[i]);
      if (k == 2 || k == 4) { drawn[k].add(r, c.hi[i], c.hi[i]); continue; }
      if (r - l < 1) { drawn[k].add(l, c.lo[i], c.hi[i]); continue; }
      // Of several packets the bytes grow with time.
      const rise = (c.hi[i] - c.lo[i]) / (r - l);
      for (let at = Math.max(0, l); at <= Math.min(w, r); at++) drawn[k].add(at, c.lo[i] + rise * (at - l), c.lo[i] + rise * Math.min(at + 1 - l, r - l));
    }
    [4, 2].forEach(k => {
      let level;
      for (let i = a, end = Math.max(0, a - 5000); i >= end && level === undefined; i--) if (i < c.n && c.kind[i] == k && c.until[i] <= from) level = c.hi[i];
      g.strokeStyle = colour(COLOURS[k]); steps(g, drawn[k], y, level);
    });
    [0, 3, 1].forEach(k => { g.fillStyle = colour(COLOURS[k]); drawn[k].lo.forEach((lo, x) => { if (lo == Infinity) return; const top = y(drawn[k].hi[x]); g.fillRect(x - (k == 1 ? 1.5 : .75), top, k == 1 ? 3 : 1.5, Math.max(2, y(lo) - top)); }); });
    g.fillStyle = colour('--faint'); g.fillText(unit(Math.max(0, from)), 4, h - 4); g.textAlign = 'right'; g.fillText(unit(to), w - 4, h - 4); g.textAlign = 'left';
    KINDS.forEach((name, k) => { g.fillStyle = colour(COLOURS[k]); g.fillText(name, 60 + 95 * k, h - 4); });
  };
  const flight = () => {
    const [g, w, h] = size(low), levels = columns(w), [a, b] = seen(from, to);
    let peak = 1;
    for (let i = a; i < b; i++) { const v = c.flight[i]; peak = Math.max(peak, v); levels.add((c.t[i] - from) / (to - from) * w, v, v); }
    g.strokeStyle = colour('--s0'); steps(g, levels, v => h - v / peak * (h - 16), a > 0 ? c.flight[a] : 0);
    g.fillStyle = colour('--faint'); g.fillText('in flight, up to ' + peak + ' B', 4, 12);
  };
  const roundTrips = () => {
    const [g, w, h] = size(trips), a = first(c.began, from), b = Math.min(c.m, first(c.began, to) + 1);
    if (b <= a) { g.fillStyle = colour('--faint'); g.fillText('no round trip begins here', 4, 12); return; }
    const levels = columns(w);
    let least = Infinity, most = 1;
    for (let i = a; i < b; i++) { const v = Math.max(1, c.took[i]); least = Math.min(least, v); most = Math.max(most, v); levels.add((c.began[i] - from) / (to - from) * w, v, v); }
    const y = v => h - 4 - (most > least ? Math.log(v / least) / Math.log(most / least) : .5) * (h - 24);
    g.fillStyle = colour('--s2');
    levels.lo.forEach((lo, x) => { if (lo == Infinity) return; const top = y(levels.hi[x]); g.fillRect(x - 1, top - 1, 2, Math.max(2, y(lo) - top)); });
    g.fillStyle = colour('--faint'); g.fillText('round trips of ' + unit(least) + ' to ' + unit(most) + ', logarithmic', 4, 12);
  };
  const draw = () => { sequence(); flight(); roundTrips(); };
  const show = (id, around) => {
    c = unpack(all.find(c => c.id == id) || all[0]); which.value = c.id; from = 0; to = c.end * 1.01;
    const gap = around && c.gaps.find(g => g[5] == around);
    if (gap) { from = Math.max(0, gap[0] - gap[1] * .5); to = gap[0] + gap[1] * 1.5; }
    joined.textContent = c.joined ? `What happened within ${unit(c.joined)} is one point; --points N draws finer.` : '';
    draw();
  };
  all.forEach(c => which.add(new Option(text(c.id + ': ' + c.name), c.id)));
  which.onchange = () => show(which.value);
  document.getElementById('all').onclick = () => show(c.id);
  let held;
  canvases.forEach(canvas => {
    canvas.onwheel = e => { e.preventDefault(); const m = from + (to - from) * e.offsetX / canvas.clientWidth, k = Math.exp(Math.sign(e.deltaY) * .25); if ((to - from) * k < 100 || (to - from) * k > 4 * c.end) return; from = m - (m - from) * k; to = m + (to - m) * k; draw(); };
    canvas.ondblclick = () => show(c.id);
    canvas.onpointerdown = e => { held = [e.clientX, from, to]; canvas.setPointerCapture(e.pointerId); };
    canvas.onpointerup = () => held = null;
    canvas.onpointermove = e => {
      const w = canvas.clientWidth;
      if (held) { const d = (held[0] - e.clientX) / w * (held[2] - held[1]); from = held[1] + d; to = held[2] + d; draw(); return; }
      const time = from + (to - from) * e.offsetX / w, v = span[1] - (span[1] - span[0]) * e.offsetY / canvas.clientHeight;
      const gap = c.gaps.find(g => time >= g[0] && time <= g[0] + g[1]);
      const near = (to - from) / w * 6, [a, b] = seen(time - near, time + near);
      let best, distance = Infinity;
      for (let i = a; i < b; i++) {
        if (c.kind[i] == 4) continue;
        const d = Math.max(0, c.t[i] - time, time - c.until[i]) / (to - from) + Math.max(0, c.lo[i] - v, v - c.hi[i]) / (span[1] - span[0]);
        if (d < distance) { distance = d; best = i; }
      }
      const packets = i => c.count[i] > 1 ? `${c.count[i]} from packet ${c.packet[i]} on` : `packet ${c.packet[i]}`;
      const packet = best !== undefined && canvas == main ? `${packets(best)} at ${unit(c.t[best])}: ${KINDS[c.kind[best]]} ${c.lo[best]}–${c.hi[best]}. ` : '';
      at.textContent = packet + (gap ? `Gap of ${unit(gap[1])}: ${gap[2]}; ${gap[4]}` : '');
    };
  });
  document.querySelectorAll('tr[data-connection]').forEach(row => row.onclick = () => {
    show(row.dataset.connection, row.dataset.gap); document.getElementById('viewer').scrollIntoView({ behavior: 'smooth' });
  });
  window.onresize = draw;
  window.matchMedia('(prefers-color-scheme: dark)').onchange = draw;
  show(all[0].id);
})();
