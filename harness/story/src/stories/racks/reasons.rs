//! Why numbers of the text cannot be had: what the rows say that differ.

/// D19.
pub(super) const THREE_RACKS: &str = "shares: 235 Gbit are 1.02 % of what one rack's 400 Gb/s carry in 58 s, so \
    that the text's runs are of a minute, in which DCTCP drops 236 kbit with three racks, 20 packets of 4,200 \
    million: one in 110 runs of 28 ms, and a minute takes .9 million packets a second 80 minutes. So drops are \
    made frequent by ports of 350 kB and by chunks of 250 kB, CUBIC's share of bits thousands of times the \
    text's, and with it what is sent again. With writes of 32 kB alone CUBIC drops a hundredth of that in the \
    fabric (`narrows run racks --set cc=cubic --set workers=h48..h95 --set traffic.chunk.rate=1 --set \
    demand=67000`). Orders: the text's CUBIC drops in racks what ours drops in the fabric, and its workers \
    send more again than its stores. What meets at a host's port is its cross traffic, of which it tells \
    neither sizes nor how many answer at once; here five workers answer, and no queue overflows. Nor are its \
    numbers those of senders that send again what was dropped: .020 % of what stores send in a minute are 10 \
    Gbit, and 506 Mbit are dropped; with DCTCP workers send .078 % again, and 20 packets are dropped in all";

/// D20.
pub(super) const TWO_RACKS: &str = "shares: steady windows cannot give both of the text's of the stores, .59 % \
    with CUBIC and .001 with DCTCP (see D21). Racks drop CUBIC's where chunks meet at a worker's port: the \
    switch's memory for a port makes the fabric's over the racks' anything, 4 with a sixteenth of what is left \
    of 12 MB, 17 with an eighth, and with half of it racks drop nothing (`narrows run racks --set cc=cubic \
    --set workers=h48..h79 --sweep buffer=12MB:1/16,12MB:1/8,12MB:1/2`); but with three racks the text has \
    five times as much in racks as in the fabric. Orders: with DCTCP the text's workers send .035 % again \
    though its racks drop nothing and its fabric .001 % of the stores': for something else, which it does not \
    tell (rings that overflow, timeouts for nothing). Here they send again what is dropped, and cross traffic \
    meets no queue that overflows. Processors of workers take more than those of stores: see D21";

/// D21.
pub(super) const ONE_RACK: &str = "shares: steady windows cannot give both of the text's of the stores, 1.02 % \
    with CUBIC and .125 with DCTCP. A loss of p leaves a loss-based control a window of about sqrt(1.5/p) \
    segments: 12 at 1.02 %. As many connections at DCTCP's least, two segments, then fill a sixth of the port \
    and the way, and drop nothing. Where so many meet that two segments of each fill both, as here, CUBIC's \
    windows are some six, and its loss is 1.5/36, 4 %, four times the text's. Cross traffic meets no queue \
    that overflows, so that workers send little again. Orders: processors do nothing here but packets, at the \
    costs of a kernel without a NIC's driver (`narrows calibrate`), and a worker has three times the packets \
    of a store, nearly all of them marked. DCTCP takes .9 of a core more of a worker and .2 of a store; .9 are \
    the text's 3 % where 30 cores are busy otherwise. What decides it is the time that applications take, \
    which the text does not tell";
