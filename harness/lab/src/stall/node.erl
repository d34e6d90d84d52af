%% Nodes of Erlang/OTP for stall/erlang.rs: one serves, others ask it. Each tells on its standard output
%% what it saw, a line each. Times are microseconds of CLOCK_MONOTONIC, which all on a machine share.
-module(node).
-export([main/2]).

%% Ends after Life milliseconds whatever comes: whoever waits for this may be gone.
main(Life, Role) ->
    spawn(fun() -> timer:sleep(Life), halt(1) end),
    role(Role),
    halt().

%% All begin Lead microseconds from when the server has heard all.
role([server, Clients, Lead, Span, Size, Writers]) ->
    register(server, self()),
    Peers = hear_hellos(Clients, []),
    Suspended = counters:new(1, []),
    erlang:system_monitor(watch_server(self(), Suspended), [busy_port, busy_dist_port]),
    Relays = case Writers of
        relay -> maps:from_list([{Peer, spawn(fun() -> relay(Peer) end)} || Peer <- Peers]);
        _ -> #{}
    end,
    Begin = now_us() + Lead,
    Sampler = spawn(fun() -> sample(maps:values(Relays), Size, 0) end),
    tell("release ~s", [erlang:system_info(otp_release)]),
    tell("begin ~b", [Begin]),
    [Peer ! {go, Begin, self()} || Peer <- Peers],
    erlang:send_after((Begin + Span - now_us()) div 1000, self(), stop),
    serve(#{size => Size, writers => Writers, relays => Relays, suspended => Suspended}, 0),
    [Peer ! stop || Peer <- Peers],
    Sampler ! {most, self()},
    receive {most, Most} -> tell("queued ~b", [Most]) end,
    %% Its last words to its clients are to leave first.
    timer:sleep(300);
role([client, Server, Every, Span]) ->
    connect(Server),
    {go, Begin, Pid} = say_hello({server, Server}),
    %% Its end is the end, too, be it that the last word is lost or that it dies.
    monitor(process, Pid),
    Self = self(),
    spawn(fun() -> ask(Pid, Self, Begin, Every, Begin + Span) end),
    hear(Begin, {Begin, Begin}, 0).

now_us() -> os:perf_counter(1000000).

tell(Format, Values) -> io:format(Format ++ "~n", Values).

%% A name may not be registered yet, or a node not be there.
connect(Node) ->
    net_kernel:connect_node(Node) orelse begin timer:sleep(50), connect(Node) end.

say_hello(Server) ->
    Server ! {hello, self()},
    receive {go, _, _} = Go -> Go after 200 -> say_hello(Server) end.

hear_hellos(Clients, Peers) when length(Peers) =:= Clients -> Peers;
hear_hellos(Clients, Peers) ->
    receive {hello, Peer} -> hear_hellos(Clients, [Peer | lists:delete(Peer, Peers)]) end.

%% The server: one request after the other. A send during which the system monitor told that a port
%% suspended it is a stall.
serve(Node = #{size := Size, suspended := Suspended}, Dropped) ->
    receive
        {ask, Peer} ->
            Told = counters:get(Suspended, 1),
            From = now_us(),
            Sent = reply(Node, Peer, {reply, binary:copy(<<0>>, Size)}),
            Until = now_us(),
            counters:get(Suspended, 1) =:= Told orelse tell("stall ~b ~b", [From, Until]),
            serve(Node, case Sent of nosuspend -> Dropped + 1; _ -> Dropped end);
        stop -> tell("dropped ~b", [Dropped])
    end.

reply(#{writers := suspend}, Peer, Reply) -> Peer ! Reply;
reply(#{writers := nosuspend}, Peer, Reply) -> erlang:send(Peer, Reply, [nosuspend]);
reply(#{writers := relay, relays := Relays}, Peer, Reply) -> maps:get(Peer, Relays) ! Reply.

%% A process that does nothing else, and is suspended in the server's place.
relay(Peer) -> receive Reply -> Peer ! Reply, relay(Peer) end.

watch_server(Server, Suspended) ->
    spawn_opt(fun Watch() ->
        receive
            {monitor, Server, busy_dist_port, _} -> counters:add(Suspended, 1, 1);
            _ -> ok
        end,
        Watch()
    end, [{priority, high}]).

%% The most bytes that waited: in the queues of connections, of their drivers, and in relays' mailboxes.
sample(Relays, Size, Most) ->
    receive {most, To} -> To ! {most, Most}
    after 2 ->
        Connections = [tuple_to_list(Connection) || Connection <- ets:tab2list(sys_dist)],
        Handles = [Handle || Of <- Connections, {N, R} = Handle <- Of, is_integer(N), is_reference(R)],
        Queued = [Bytes || Handle <- Handles, {ok, _, _, Bytes} <- [erlang:dist_get_stat(Handle)]],
        Ports = [Port || {_, Port} <- erlang:system_info(dist_ctrl), is_port(Port)],
        Below = [Bytes || Port <- Ports, {queue_size, Bytes} <- [erlang:port_info(Port, queue_size)]],
        Mail = [N * Size || Relay <- Relays, {_, N} <- [process_info(Relay, message_queue_len)]],
        sample(Relays, Size, max(Most, lists:sum(Queued ++ Below ++ Mail)))
    end.

%% A client asks at a rate, whatever the replies do.
ask(Server, Self, Next, Every, End) ->
    case now_us() of
        Now when Now >= End -> ok;
        Now when Now >= Next -> Server ! {ask, Self}, ask(Server, Self, Next + Every, Every, End);
        _ -> timer:sleep(1), ask(Server, Self, Next, Every, End)
    end.

%% ... and knows the longest time without a reply.
hear(Last, {From, Until} = Gap, Replies) ->
    receive
        {reply, _} ->
            Now = now_us(),
            Longer = case Now - Last > Until - From of true -> {Last, Now}; false -> Gap end,
            hear(Now, Longer, Replies + 1);
        Over when Over =:= stop; element(1, Over) =:= 'DOWN' ->
            tell("gap ~b ~b", [From, Until]), tell("replies ~b", [Replies])
    end.
