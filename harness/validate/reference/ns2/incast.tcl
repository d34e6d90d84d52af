# A barrier-synchronised incast in ns-2.35, with the set-up of the FAST 2008 study, written anew
# from its description: a client asks all servers for their part of a block at once, waits until
# every part is there, and asks for the next. For asking ns-2 itself what a figure of its hangs on.
#
#   ns incast.tcl [name value] ...
#
# Prints one line: goodput in Mb/s, timeouts a block, blocks, median block time in ms, drops at
# the port to the client, fast retransmits.
#
# servers 16       how many
# buffer 64        packets of the port to the client
# sru 256          packets of each server's part of a block
# block 0          packets of a block whatever the number of servers, in place of sru
# rtomin 0.2       least timeout, in seconds; tick is the granularity of ns-2's RTT samples
# rtomax 60        greatest timeout; equal to rtomin for a fixed one
# tick 0.000001
# time 20          simulated seconds
# agent Newreno    or Reno, Sack1, "" for Tahoe
# window 20        packets
# initial 2        packets of the initial window
# limited 1        limited transmit
# restart 1        the window starts again after a pause of an RTO
# delack 0         seconds that an ACK may wait; 0 acknowledges each packet
# jitter 0         longest random wait, in seconds, of a server before each packet it sends
# late 0           longest random wait, in seconds, of a server before it answers
# apart 0          seconds between the openings of two connections; 0 opens all with the first block
# seed 1
# NAME_ VALUE      a variable of ns-2's agent, such as exit_recovery_fix_ 1

array set opt {
    servers 16 buffer 64 sru 256 block 0 rtomin 0.2 rtomax 60 tick 0.000001 time 20 agent Newreno
    window 20 initial 2 limited 1 restart 1 delack 0 jitter 0 late 0 apart 0 seed 1
}
set variables {}
foreach {name value} $argv {
    if {[string match "*_" $name]} {
        lappend variables $name $value
        continue
    }
    if {![info exists opt($name)]} {
        puts stderr "incast.tcl: no option '$name'; there are [lsort [array names opt]]"
        exit 2
    }
    set opt($name) $value
}

set ns [new Simulator]
set random [new RNG]
$random seed $opt(seed)
# ns-2's own draws: the waits of `jitter`.
$defaultRNG seed $opt(seed)

Agent/TCP set packetSize_ 1000
Agent/TCP set window_ $opt(window)
Agent/TCP set windowInit_ $opt(initial)
Agent/TCP set tcpTick_ $opt(tick)
Agent/TCP set minrto_ $opt(rtomin)
Agent/TCP set maxrto_ $opt(rtomax)
Agent/TCP set rtxcur_init_ 3.0
Agent/TCP set singledup_ $opt(limited)
Agent/TCP set slow_start_restart_ $opt(restart)
Agent/TCP set overhead_ $opt(jitter)
if {$opt(delack) > 0} {
    Agent/TCPSink/DelAck set interval_ $opt(delack)
}

# A connection that tells somebody of each packet that arrives in order.
proc connection {from to sender sink told} {
    global ns
    global variables
    set tcp [new $sender]
    foreach {name value} $variables {
        $tcp set $name $value
    }
    set end [new $sink]
    $ns attach-agent $from $tcp
    $ns attach-agent $to $end
    $ns connect $tcp $end
    set app [new Application/$told]
    $app attach-agent $end
    $app start
    return [list $tcp $app]
}

# What servers and client are told.
Class Agent/Message/Server -superclass Agent/Message
Agent/Message/Server instproc recv {message} {
    global ns random opt
    $self instvar index_
    if {$opt(late) > 0} {
        set wait [$random uniform 0 $opt(late)]
        $ns at [expr {[$ns now] + $wait}] "answer $index_"
    } else {
        answer $index_
    }
}
Class Application/Part -superclass Application
Application/Part instproc recv {bytes} {
    $self instvar index_
    arrived $index_ [expr {$bytes / 1040}]
}

proc share {index} {
    global opt
    if {$opt(block) == 0} {
        return $opt(sru)
    }
    return [expr {$opt(block) / $opt(servers) + ($index < $opt(block) % $opt(servers))}]
}

proc answer {index} {
    global data
    $data($index) advanceby [share $index]
}

proc ask {} {
    global ns opt random request missing unfinished asked
    set asked [$ns now]
    set unfinished $opt(servers)
    set order {}
    for {set i 0} {$i < $opt(servers)} {incr i} {
        set missing($i) [share $i]
        lappend order [list [$random uniform 0 1] $i]
    }
    foreach pair [lsort -real -index 0 $order] {
        $request([lindex $pair 1]) send block
    }
}

proc arrived {index packets} {
    global ns missing unfinished asked times received
    incr received $packets
    incr missing($index) -$packets
    if {$missing($index) == 0 && [incr unfinished -1] == 0} {
        lappend times [expr {([$ns now] - $asked) * 1000.0}]
        ask
    }
}

set switch [$ns node]
set client [$ns node]
$ns simplex-link $switch $client 1Gb 25us DropTail
$ns simplex-link $client $switch 1Gb 25us DropTail
$ns queue-limit $switch $client $opt(buffer)
$ns queue-limit $client $switch 1000
set monitor [$ns monitor-queue $switch $client ""]
set sink [expr {$opt(delack) > 0 ? "DelAck" : ""}]
if {$opt(agent) == "Sack1"} {
    set sink "Sack1[expr {$opt(delack) > 0 ? "/DelAck" : ""}]"
}
set sender [expr {$opt(agent) == "" ? "Agent/TCP" : "Agent/TCP/$opt(agent)"}]
set sink [expr {$sink == "" ? "Agent/TCPSink" : "Agent/TCPSink/$sink"}]
for {set i 0} {$i < $opt(servers)} {incr i} {
    set server [$ns node]
    $ns duplex-link $server $switch 1Gb 25us DropTail
    $ns queue-limit $server $switch 50
    $ns queue-limit $switch $server 1000
    foreach [list data($i) app] [connection $server $client $sender $sink Part] {}
    $app set index_ $i
    set request($i) [new Agent/Message]
    set heard [new Agent/Message/Server]
    $heard set index_ $i
    $request($i) set packetSize_ 1040
    $ns attach-agent $client $request($i)
    $ns attach-agent $server $heard
    $ns connect $request($i) $heard
}

set received 0
set times {}
set begin 1.0
if {$opt(apart) > 0} {
    # Open each connection alone, with one packet either way.
    rename answer answer_block
    rename arrived arrived_block
    proc answer {index} { global data; $data($index) advanceby 1 }
    proc arrived {index packets} {}
    set begin [expr {1.0 + $opt(servers) * $opt(apart)}]
    for {set i 0} {$i < $opt(servers)} {incr i} {
        $ns at [expr {0.5 + $i * $opt(apart)}] "$request($i) send open"
    }
    $ns at [expr {$begin - 0.001}] {
        rename answer ""; rename arrived ""
        rename answer_block answer; rename arrived_block arrived
    }
}
proc count {what} {
    global data opt
    set sum 0
    for {set i 0} {$i < $opt(servers)} {incr i} {
        incr sum [$data($i) set $what]
    }
    return $sum
}
$ns at $begin {
    set before [count nrexmit_]
    ask
}
$ns at [expr {$begin + $opt(time)}] {
    set blocks [llength $times]
    set sorted [lsort -real $times]
    set median [expr {$blocks > 0 ? [lindex $sorted [expr {$blocks / 2}]] : 0.0}]
    set timeouts [expr {[count nrexmit_] - $before}]
    puts [format "%.1f %.3f %d %.2f %d %d" \
        [expr {$received * 8000.0 / $opt(time) / 1e6}] \
        [expr {double($timeouts) / ($blocks + 1)}] \
        $blocks $median [$monitor set pdrops_] [expr {[count ncwndcuts_]}]]
    exit 0
}
$ns run
