//! Why numbers of the text cannot be had: what the rows say that differ.

/// D19.
pub(super) const THREE_RACKS: &str = "the text counts what a run of 28 ms cannot have: 235 Gbit are 1.02 % \
    of what one rack's 400 Gb/s carry in 58 s, so that its runs are of a minute. In that DCTCP drops 236 \
    kbit with three racks, 20 packets of 4,200 million: one in 110 runs, and a minute takes .9 million \
    packets a second 80 minutes. So drops are made frequent by ports of 350 kB and by chunks of 250 kB, \
    CUBIC's share of bits thousands of times the text's, and with it what is sent again. With writes of 32 \
    kB alone CUBIC drops a hundredth of that in the fabric (`narrows run racks --set cc=cubic --set \
    workers=h48..h95 --set traffic.chunk.rate=1 --set demand=67000`). Those drops are in the fabric, and \
    the text's of CUBIC's are in racks. Nor are all of the text's numbers those of senders that send again \
    what was dropped: .020 % of what stores send in a minute are 10 Gbit, and 506 Mbit are dropped; with \
    DCTCP workers send .078 % again, and 20 packets are dropped in all. Processors do nothing here but \
    packets, at the costs of a kernel without a NIC's driver (`narrows calibrate`)";

/// D20.
pub(super) const TWO_RACKS: &str = "steady windows cannot give both of the text's shares of the stores, .59 \
    % with CUBIC and .001 with DCTCP (see D21). Racks drop CUBIC's where chunks meet at a worker's port: \
    the switch's memory for a port makes the fabric's over the racks' anything, 4 with a sixteenth of what \
    is left of 12 MB, 17 with an eighth, and with half of it racks drop nothing (`narrows run racks --set \
    cc=cubic --set workers=h48..h79 --sweep buffer=12MB:1/16,12MB:1/8,12MB:1/2`); but with three racks the \
    text has five times as much in racks as in the fabric. Cross traffic meets no queue that overflows, so \
    that workers send little again. Processors do nothing here but packets (see D19)";

/// D21.
pub(super) const ONE_RACK: &str = "steady windows cannot give both of the text's shares of the stores, 1.02 \
    % with CUBIC and .125 with DCTCP. A loss of p leaves a loss-based control a window of about sqrt(1.5/p) \
    segments: 12 at 1.02 %. As many connections at DCTCP's least, two segments, then fill a sixth of the \
    port and the way, and drop nothing. Where so many meet that two segments of each fill both, as here, \
    CUBIC's windows are some six, and its loss is 1.5/36, 4 %, four times the text's. Cross traffic meets \
    no queue that overflows, so that workers send little again. Processors do nothing here but packets \
    (see D19)";

/// D22.
pub(super) const BURSTS: &str = "with more than one rack DCTCP's drops are bursts of some tens of \
    packets at a fabric switch's port, in some of the runs. In one run 73 are dropped within 17 us, 60 of them of chunks: in the 60 us before, \
    packets of 33 connections of 26 hosts were marked there, 15 of them chunks and 18 writes, which leave as \
    a whole (`narrows run racks -r 1 --seed 4001 --set workers=h48..h95 --set cc=dctcp --trace \
    trace.jsonl`). So few runs do not tell their mean within a factor of three. More do: with three racks 40 of DCTCP give .65 ± .24 Mbit \
    and 6 of CUBIC 146 ± 20, 225 times, with 95 % from 142 to 402 (`narrows run racks -r 40 --seed 4001 \
    --set workers=h48..h95 --set cc=dctcp`, and `-r 6 --set cc=cubic`); through 370 kB it is .16 ± .09 (40 \
    runs: `narrows run racks -r 40 --seed 3001 --set workers=h48..h95 --set cc=dctcp --set \
    'network.port.\"spine->leaf\".queue.limit=370kB'`), some 900 times. `narrows story racks --full` judges \
    46 runs of DCTCP and 12 of CUBIC with three racks, and 26 of DCTCP with two";
