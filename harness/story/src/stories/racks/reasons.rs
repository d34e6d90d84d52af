//! Why numbers of the text cannot be had: what the rows say that differ.

/// D19.
pub(super) const THREE_RACKS: &str = "shares: the text's do not fit each other. .020 % of what its stores send in \
    a minute with CUBIC are 10 Gbit, and 506 Mbit are dropped; with DCTCP its workers send .078 % again, and 20 \
    packets are dropped in all. Its runs are of a minute, for 235 Gbit are 1.02 % of what one rack's 400 Gb/s \
    carry in 58 s; DCTCP's 20 packets, of 4,200 million, are one in 110 runs of 28 ms, and to turn a knob by them \
    takes an hour and a half of one core each time (docs/benchmarks/simulator.md). So one set-up stands for the \
    text's three, and is fitted to D22's ratios: drops are made frequent by ports of 350 kB and by chunks of 250 \
    kB, CUBIC's share of bits thousands of times the text's, and with it what is sent again. With writes of 32 kB \
    alone CUBIC drops a hundredth of that in the \
    fabric (`narrows run racks --set cc=cubic --set workers=h48..h95 --set traffic.chunk.rate=1 --set \
    demand=67000`). Orders: the text's CUBIC drops more in racks than in the fabric, and its workers send more \
    again than its stores and than with DCTCP. What meets at a store's port is cross traffic, of which the \
    text tells neither sizes nor how many answer at once. With five, as here, no queue overflows. With \
    sixteen, 128 kB each, 3.5 Gb/s, CUBIC drops 213 Mbit in racks and 199 in the fabric, and workers send 3.9 \
    % again, stores .87 (`narrows run racks --set cc=cubic --set workers=h48..h95 --set traffic.read.k=16 \
    --set traffic.read.size=128kB --set traffic.read.load=3500Mb/s`; at 3 Gb/s 163 and 170 Mbit). But then \
    links to one rack are 95 % busy and to two 98, which are not D18's 3 points; with one rack the fabric \
    drops 7 times what racks do (the text 214, D21); and with DCTCP 26 % of what comes to stores is marked \
    (the text 6.5). Processors of stores do nothing here but packets, and a share of \
    more depends on what else they do. Two cores of each that are busy with something else would make it \
    about what is wanted (told here), and with two racks, where the text has 14 %, too little (told at D20), \
    so that no one number of them gives the text's of all three set-ups (see D21). With \
    DCTCP workers send again what nobody dropped, see D20";

/// D20.
pub(super) const TWO_RACKS: &str = "shares: steady windows cannot give both of the text's of the stores, .59 % \
    with CUBIC and .001 with DCTCP (see D21). It is not how many meet: with 8 writes of each store under way in \
    place of 36 2.4 % is sent again, with 36 3.2, and .005 and .006 of DCTCP's (`narrows run racks --set \
    workers=h48..h79 --sweep traffic.write.limit=8,36 --sweep cc=cubic,dctcp`); it is chunks that meet a port \
    of 350 kB, as with three racks (D19). Racks drop CUBIC's where chunks meet at a worker's port: the switch's \
    memory for a port makes the fabric's over the racks' anything, 4 with a sixteenth of what is left of 12 MB, \
    20 with an eighth, 29, which is within a factor 3, with a seventh, and with half of it racks drop nothing \
    (`narrows run racks -r 3 --set cc=cubic --set workers=h48..h79 --sweep \
    buffer=12MB:1/16,12MB:1/8,12MB:1/7,12MB:1/2`). Switches have halves of halves, so an eighth it is; and with \
    three racks the text has five times as much in racks as in the fabric. Marks to stores, just above what is \
    wanted, are of the cross traffic, as D19's. Orders hold, but two things are chosen. With DCTCP the \
    text's workers send .035 % again though its racks drop nothing and its fabric .001 % of the stores'. Here \
    they do so for nothing: stores acknowledge as Linux did before 4.18, which may cancel the acknowledgement \
    of an answer's only packet when marks come or go (D15), and a timeout follows; with receivers of today \
    workers send .0001 % again (`--set group.stores.tcp.dctcp_receiver=rfc8257`). And of a worker 24 cores are \
    busy with something else, see D21. With CUBIC workers send little again, since cross traffic meets no \
    queue that overflows, see D19";

/// D21.
pub(super) const ONE_RACK: &str = "shares: steady windows cannot give both of the text's of the stores, 1.02 % \
    with CUBIC and .125 with DCTCP. A loss of p leaves a loss-based control a window of about sqrt(1.5/p) \
    segments: 12 at 1.02 %. As many connections at DCTCP's least, two segments, then fill a sixth of the port \
    and the way, and drop nothing. Where so many meet that two segments of each fill both, as here, CUBIC's \
    windows are some six, and its loss is 1.5/36, 4 %, four times the text's. Cross traffic meets no queue \
    that overflows, so that workers send little again. Orders hold. Processors do nothing here but packets, at \
    the costs of a kernel without a NIC's driver (`narrows calibrate`), and a worker has three times the \
    packets of a store, nearly all of them marked. What DCTCP takes more of a worker is \
    the text's 3 % where some 25 other cores are busy: 24 are so by the set-up \
    (`group.workers.cpu.other`), which is calibrated. Stores have more to do with DCTCP because connections \
    are at two segments: workers merge some two where they merge some three of CUBIC's, so that more \
    acknowledgements come to stores; and small writes, each with its call and its answer, get about twice as \
    much of the port, chunks half. It is a larger share than with more racks, since all that stores carry is \
    half of what two racks take. What else the text's stores do it does not tell, and no one number of cores \
    that are busy with it gives its shares: one does here (told above), with two racks it takes none, and with \
    three two. For in cores DCTCP takes about as much more of a store with three racks as with two, where the \
    text has 0 and 14 % of the whole. So stores have none, and D20's share alone is as wanted";
