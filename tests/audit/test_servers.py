"""Audits of name servers and controllers: what tools change there."""

from pathlib import Path

from loops import run_on
from mqcore.audit import AuditReader, Wanted
from mqcore.config import Layer, Program, controller_settings, namesrv_settings, resolved
from mqcore.controller.server import Controller
from mqcore.model.relaxed_json import parse_object
from mqcore.namesrv.server import NameServer
from mqcore.remoting import AnsweredBy, Client, OwnRequestCode, RequestCode, answered_by, expect
from page_reading import page_text


def test_a_name_server_has_lines_of_keys_settings_and_permissions(tmp_path: Path) -> None:
    async def run() -> None:
        values = {
            "listenPort": "0",
            "kvConfigPath": str(tmp_path / "kvConfig.json"),
            "mqcoreHealthAddress": "127.0.0.1:0",
        }
        server = NameServer(namesrv_settings(resolved(Program.NAMESRV, [Layer("t", values)])))
        await server.start()
        address = f"127.0.0.1:{server.ports['namesrv']}"
        try:
            async with Client() as client:
                for value in ("1", "2"):
                    ext = {"namespace": "n", "key": "k", "value": value}
                    expect(await client.call(address, RequestCode.PUT_KV_CONFIG, ext), address)
                code = RequestCode.UPDATE_NAMESRV_CONFIG
                body = b"orderMessageEnable=true"
                expect(await client.call(address, code, {}, body), address)
                body = b"orderMessageEnable=false\nkvConfigPath=/tmp/x"
                assert (await client.call(address, code, {}, body)).code == 16
                codes = [each for each in answered_by(AnsweredBy.NAMESRV) if each.row.is_audited]
                for each in codes:
                    await client.call(address, each, {"brokerName": "b"}, b"")
                answer = expect(await client.call(address, OwnRequestCode.AUDIT_READ), address)
                rows = list(reversed(parse_object(answer.body)["lines"]))
                check = expect(await client.call(address, OwnRequestCode.AUDIT_VERIFY), address)
                assert parse_object(check.body)["isWhole"]
            text = await page_text(server.ports["health"], "/metrics")
        finally:
            await server.stop()
        lines = f'mqcore_audit_lines_total{{node_type="namesrv",event="change"}} {len(rows)}.0'
        assert lines in text.splitlines()
        first, second, settings, refused = rows[:4]
        assert (first["before"], first["after"]) == (None, "1")
        assert (second["before"], second["after"]) == ("1", "2")
        assert second["resource"] == ["KV:n/k"]
        assert settings["after"] == {"orderMessageEnable": "true"}
        assert (refused["outcome"], refused["after"]["orderMessageEnable"]) == ("refused", "true")
        assert {row["code"] for row in rows} == {int(each) for each in codes}
        assert all(row["server"] == "namesrv" for row in rows)

    run_on("asyncio", run())
    assert AuditReader(tmp_path / "audit" / "audit.log").check().is_whole


def test_a_controller_has_lines_of_what_tools_change(tmp_path: Path) -> None:
    async def run() -> None:
        values = {
            "controllerStorePath": str(tmp_path),
            "listenPort": "0",
            "mqcoreHealthAddress": "127.0.0.1:0",
        }
        settings = controller_settings(resolved(Program.CONTROLLER, [Layer("t", values)]))
        controller = Controller(settings)
        await controller.start()
        address = f"127.0.0.1:{controller.ports['controller']}"
        codes = [each for each in answered_by(AnsweredBy.CONTROLLER) if each.row.is_audited]
        try:
            async with Client() as client:
                for each in codes:
                    ext = {"brokerName": "b", "clusterName": "c"}
                    await client.call(address, each, ext, b"scanNotActiveBrokerInterval=4000")
            text = await page_text(controller.ports["health"], "/metrics")
            (line,) = (each for each in text.splitlines() if 'event="change"' in each)
            assert line.startswith("mqcore_audit_lines_total{")
            assert float(line.rpartition(" ")[2]) == len(codes)
        finally:
            await controller.stop()

    run_on("asyncio", run())
    reader = AuditReader(tmp_path / "audit" / "audit.log")
    codes = {int(each) for each in answered_by(AnsweredBy.CONTROLLER) if each.row.is_audited}
    rows = reader.page(Wanted(), rows_max=100).rows
    assert {row["code"] for row in rows} == codes
    (changed,) = (row for row in rows if row["code"] == 1009)
    assert changed["outcome"] == "done"
    assert changed["after"] == {"scanNotActiveBrokerInterval": "4000"}
    assert changed["before"] != changed["after"]
