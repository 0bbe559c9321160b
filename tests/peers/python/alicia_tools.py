"""Tools of the server and of the client (4.6, 4.7, 5.4)."""

from alicia_world import *

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


CLOCK = (*STREAMING, "tool:clock")


async def asked(peer, conv, content="client clock"):
    """A turn that waits for a tool of the client: user id, request."""
    id, stanza = await peer.say(conv, content)
    await peer.ack(stanza)
    request = await peer.expect(REQUEST, conv, execution="client")
    return id, request


def result(request, **body):
    return {"id": request["id"] + "_result", "requestId": request["id"], "conversationId": request.conv, **body}


@check
async def al_061_a_tool_that_the_server_runs(world):
    peer, conv = await world.met()
    turn = await peer.turn(conv, "tool weather")
    [request], [outcome] = turn.of(REQUEST), turn.of(RESULT)
    equal((request["toolName"], request["parameters"], request["execution"]), ("weather", {"q": "weather", "n": 3}, "server"), "request")
    equal(request["messageId"], turn.answer, "messageId")
    equal((outcome["requestId"], outcome["success"], outcome["result"]), (request["id"], True, {"sky": "clear", "degrees": 21.5}), "result")
    equal(outcome["id"], request["id"] + "_result", "id of the result")
    order = turn.types
    ensure(order.index(START) < order.index(REQUEST) < order.index(RESULT) < len(order) - 2, "order", order)
    equal(turn.text, "Looking it up. The sky is clear.", "text")
    plain, conv = await world.met(features=())
    turn = await plain.turn(conv, "tool weather")
    equal([type for type in turn.types if type != STATS], [REQUEST, RESULT, ASSISTANT], "without streaming")
    equal(turn.of(REQUEST)[0]["messageId"], turn.answer, "messageId")
    await leave(peer, plain)


@check
async def al_069_a_tool_that_fails_is_no_error(world):
    peer, conv = await world.met()
    turn = await peer.turn(conv, "tool-error weather no sky today")
    [outcome] = turn.of(RESULT)
    equal((outcome["success"], outcome["errorCode"]), (False, "execution_error"), f"result {outcome}")
    ensure("no sky today" in outcome["errorMessage"], "errorMessage", outcome)
    equal((turn.of(ERROR), turn.text), ([], "That did not work."), "the turn goes on")
    # Retry, as in the last session of 5.10.
    await peer.send(VARIATION, conv, {"conversationId": conv, "targetId": turn.answer, "mode": "retry"})
    again = await peer.answer(conv)
    equal(again.of(START)[0]["previousId"], turn.user, "answered again")
    await leave(peer)


@check
async def al_062_a_tool_that_the_client_runs(world):
    peer, conv = await world.met(features=CLOCK)
    id, request = await asked(peer, conv, 'client clock {"tz":"UTC","deep":{"list":[1,2.5,true,null]}}')
    equal((request["toolName"], request["parameters"]), ("clock", {"tz": "UTC", "deep": {"list": [1, 2.5, True, None]}}), "request")
    ensure(1 <= request.get("timeoutMs", 30_000) <= 30_000, "timeoutMs", request)
    stanza = await peer.send(RESULT, conv, result(request, success=True, result={"time": "12:00"}))
    ack = await peer.ack(stanza)
    turn = await peer.answer(conv, id)
    ensure('You answered {"time":"12:00"}' in turn.text.replace(" :", ":").replace('": ', '":'), "text", turn.text)
    equal(turn.of(RESULT), [], "a result of the client is not sent back")
    ensure(all(e.at >= ack.at for e in turn.of(SENTENCE)[-1:]), "the acknowledgement comes first")
    await leave(peer)


@check
async def al_066_a_result_without_request_id(world):
    peer, conv = await world.met(features=CLOCK)
    id, request = await asked(peer, conv)
    stanza = await peer.send(RESULT, "conv_" + conv, {"id": request["id"], "success": True, "result": 42})
    await peer.ack(stanza)
    ensure("You answered 42." in (await peer.answer(conv, id)).text, "text")
    await leave(peer)


@check
async def al_062_failures_of_client_tools(world):
    for code, named in (("execution_error", "execution_error"), ("unknown_tool", "unknown_tool"), ("invalid_parameters", "invalid_parameters"), ("EXECUTION_ERROR", "execution_error"), ("own-code", "own-code")):
        peer, conv = await world.met(features=CLOCK)
        id, request = await asked(peer, conv)
        stanza = await peer.send(RESULT, conv, result(request, success=False, errorCode=code, errorMessage="because"))
        await peer.ack(stanza)
        turn = await peer.answer(conv, id)
        ensure(f"It ended as failed with {named}." in turn.text, code, turn.text)
        equal(turn.of(ERROR), [], "no error")
        await leave(peer)


@check
async def al_065_a_client_tool_that_takes_too_long(world):
    peer, conv = await world.met(features=CLOCK)
    id, request = await asked(peer, conv, "client clock within 3000")
    ensure(request["timeoutMs"] <= 3000, "timeoutMs", request)
    outcome = await peer.expect(RESULT, conv, requestId=request["id"], success=False, errorCode="timeout")
    ensure(outcome.at - request.at >= request["timeoutMs"] / 1000, "the client did not get the time that it was promised")
    equal(outcome["id"], request["id"] + "_result", "id")
    turn = await peer.answer(conv, id)
    ensure("It ended as timed_out" in turn.text, "the turn goes on", turn.text)
    equal(turn.of(ERROR), [], "no error")
    stanza = await peer.send(RESULT, conv, result(request, success=True, result=1))
    await peer.ack(stanza)
    await peer.silent(conv)
    await leave(peer)


@check
async def al_067_the_first_result_wins(world):
    peer, conv = await world.met(features=CLOCK)
    id, request = await asked(peer, conv)
    first = await peer.send(RESULT, conv, result(request, success=True, result="first"))
    second = await peer.send(RESULT, conv, result(request, success=False, errorCode="timeout"))
    await peer.ack(first)
    await peer.ack(second)
    turn = await peer.answer(conv, id)
    ensure("You answered first." in turn.text, "text", turn.text)
    third = await peer.send(RESULT, conv, result(request, success=True, result="third"))
    await peer.ack(third)
    await peer.silent(conv)
    await leave(peer)


@check
async def a_result_that_nobody_asked_for(world):
    peer, conv = await world.met(features=CLOCK)
    unknown = fresh("atu")
    stanza = await peer.send(RESULT, conv, {"id": unknown + "_result", "requestId": unknown, "conversationId": conv, "success": True})
    await peer.refused(stanza, 203)
    await leave(peer)


@check
async def tool_results_do_not_interrupt_and_another_device_may_give_them(world):
    peer, other, conv = await world.pair(CLOCK)
    id, request = await asked(peer, conv)
    seen = await other.expect(REQUEST, conv)
    equal(seen.raw, request.raw, "the same bytes for everybody")
    stanza = await other.send(RESULT, conv, result(seen, success=True, result="other"))
    await other.ack(stanza)
    ensure("You answered other." in (await peer.answer(conv, id)).text, "text")
    await peer.barrier()
    equal([e for e in peer.inbox if e.type == ACK], [], "acknowledgements go to whom they concern")
    await leave(peer, other)


@check
async def al_070_a_stop_while_a_tool_is_open(world):
    peer, conv = await world.met(features=CLOCK)
    id, request = await asked(peer, conv)
    stanza = await peer.send(STOP, conv, {"conversationId": conv})
    await peer.ack(stanza)
    turn = await peer.answer(conv, id)
    [outcome] = turn.of(RESULT)
    equal((outcome["requestId"], outcome["success"], outcome["errorCode"]), (request["id"], False, "cancelled"), "result")
    ensure(turn.types.index(RESULT) < turn.types.index(SENTENCE) or turn.of(SENTENCE), "order", turn.entries)
    late = await peer.send(RESULT, conv, result(request, success=True, result=1))
    await peer.ack(late)
    await peer.silent(conv)
    await leave(peer)


@check
async def al_070_a_stop_while_the_server_runs_a_tool(world):
    peer, conv = await world.met()
    id, stanza = await peer.say(conv, "slow-tool weather")
    await peer.ack(stanza)
    request = await peer.expect(REQUEST, conv, execution="server")
    stanza = await peer.send(STOP, conv, {"conversationId": conv, "stopType": "all"})
    await peer.ack(stanza)
    turn = await peer.answer(conv, id)
    [outcome] = turn.of(RESULT)
    equal((outcome["requestId"], outcome["success"], outcome["errorCode"]), (request["id"], False, "cancelled"), "result")
    await leave(peer)
