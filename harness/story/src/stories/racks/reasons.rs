//! Why numbers of the text cannot be had: what the rows say that differ.

/// D19.
pub(super) const THREE_RACKS: &str = "the text counts what a run of 28 ms cannot have: 235 Gbit are 1.02 % \
    of what one rack's 400 Gb/s carry in 58 s, so that its runs are of a minute. In that DCTCP drops 236 \
    kbit with three racks, 20 packets of 4,200 million: one in 110 runs, and a minute takes .9 million \
    packets a second 80 minutes. So drops are made frequent by chunks of 1 MB, CUBIC's share of bits \
    hundreds of times the text's, and with it what is sent again; in one run in sixteen a chunk too many \
    meets at a rack's port with DCTCP. With the same bits in writes of 32 kB nothing is dropped in the \
    fabric (`narrows run racks --set cc=cubic --set workers=h48..h95 --set traffic.chunk.rate=1 --set \
    demand=67000`). Nor are all of the text's numbers those of senders that send again what was dropped: \
    .020 % of what stores send in a minute are 10 Gbit, and 506 Mbit are dropped; with DCTCP workers send \
    .078 % again, and 20 packets are dropped in all. Processors do nothing here but packets, at the costs \
    of a kernel without a NIC's driver (`narrows calibrate`): a quarter more of that is 1 % of a processor \
    that has 24 times as much else to do";

/// D20.
pub(super) const TWO_RACKS: &str = "steady windows cannot give both of the text's shares of the stores, .59 \
    % with CUBIC and .001 with DCTCP (see D21), and DCTCP's drops are a burst in some of the runs (see \
    D22). Racks drop CUBIC's where chunks of 1 MB meet at a worker's port: more of the switch's memory for \
    a port makes the fabric's over the racks' 1.2, 3.0 and 8.3, and not 73 (`narrows run racks --set \
    cc=cubic --set workers=h48..h79 --sweep buffer=12MB:1/8,12MB:1/2,12MB:2`), and without them the fabric \
    drops 865 Mbit with two racks and racks nothing, but with three neither does (see D19). Cross traffic \
    meets no queue that overflows, so that workers send little again. Processors do nothing here but \
    packets (see D19)";

/// D21.
pub(super) const ONE_RACK: &str = "steady windows cannot give both of the text's shares of the stores, 1.02 \
    % with CUBIC and .125 with DCTCP. A loss of p leaves a loss-based control a window of about sqrt(1.5/p) \
    segments: 12 at 1.02 %. As many connections at DCTCP's least, two segments, then fill a sixth of the \
    port, and drop nothing. Where so many meet that two segments of each fill the port, as here, CUBIC's \
    windows are some five, and its loss is 1.5/25, 6 %: both shares are the text's times six to eight, and \
    their ratio is the text's. Racks drop CUBIC's where chunks of 1 MB meet at a worker's port (see D20), \
    and cross traffic meets no queue that overflows, so that workers send little again. Processors do \
    nothing here but packets (see D19)";

/// D22.
pub(super) const BURSTS: &str = "with more than one rack DCTCP's drops are bursts of up to 4 Mbit in some \
    of the runs, and what three runs show of them is chance. How many there are is a matter of the \
    threshold at fabric switches, which the text does not tell: with three racks .38 ± .26 Mbit a run at \
    450 kB, 36 times less than CUBIC (35 runs; 13.8 ± 3.8 in 16), 1.08 ± .70 at 680 kB, 13 times less (16 \
    runs), none at 300 and at 150 kB (4 runs each; `narrows run racks -r 36 --set workers=h48..h95 --set \
    traffic.read.k=1 --sweep 'network.port.\"spine->leaf\".queue.threshold=150kB,300kB,450kB,680kB'`). \
    Smaller ports and chunks give more of them: through 500 kB, with chunks of 500 kB, CUBIC drops 52 ± 12 \
    Mbit with three racks (4 runs), 1,150 with two and 773 with one (1 run each), and DCTCP, where ports \
    mark from 60 kB on, .05 ± .08 with three (16 runs), from 75 kB on .25 ± .36 (24 runs, 4.1 of it in one \
    of them; without that one .08 ± .07), from 90 kB on .49 ± .22 (34); with two 2.97 ± .81 from 75 kB on \
    (16), with one 123 from 90 kB on (1). That is 1,080 times less with three racks from 60 kB on (with 95 \
    % 300 times or more), 210 from 75 (66 or more) and 106 from 90 (62 to 222), 387 with two and 6.3 with \
    one (`narrows run racks -r 24 --set traffic.chunk.request=500kB --set traffic.chunk.rate=1600 --set \
    traffic.chunk.limit=48 --set traffic.write.limit=300 --set \
    'network.port.\"spine->leaf\".queue.limit=500kB' --sweep \
    'network.port.\"spine->leaf\".queue.threshold=60kB,75kB,90kB'`). To know a mean within a factor of \
    three whose runs are apart by 3.4 times it takes a hundred runs, of 3 s of a core each, for each \
    threshold that is tried; and one that is found so is fitted to the ratio";
