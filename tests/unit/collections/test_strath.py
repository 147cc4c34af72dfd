"""STRATH end to end on generated traces; the labels also on the real measurements."""

import shutil

import numpy as np
import pytest

from indubio.errors import ConfigError, DataError
from indubio_lab.collections import MARKER, SENSORS, binned, deviations, outside_fences, strath
from indubio_lab.collections.strath_collection import forging_phase
from tests.strath_traces import write_measurements, write_traces

DEFECTIVE = (55, 64, 65, 66, 67, 69, 71)  # parts of the real measurements
SHORTEST = 87


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """81 traces and measurements, seven parts of which are far off."""
    folder = tmp_path_factory.mktemp("strath_made")
    off = [0.2 if part in DEFECTIVE else 0.01 + 0.0002 * part for part in range(1, 82)]
    write_measurements(folder / "strath", off)
    write_traces(folder / "strath", shortest=SHORTEST, anomalies=DEFECTIVE)
    return folder


@pytest.fixture
def own(made, tmp_path):
    """A copy that a test may spoil."""
    shutil.copytree(made / "strath", tmp_path / "strath")
    return tmp_path


def test_the_real_measurements_give_seven_defective_parts_of_81(data_folder):
    found = outside_fences(deviations(data_folder / "strath" / "CMMData.xlsx"))
    assert len(found) == 81
    assert tuple(np.flatnonzero(found) + 1) == DEFECTIVE


def test_tukeys_fences_look_both_ways():
    values = np.array([-100.0, 1, 2, 3, 4, 5, 6, 7, 8, 100])
    assert list(np.flatnonzero(outside_fences(values))) == [0, 9]


@pytest.mark.parametrize("task", ["L_ACTpos", "A_ACTspd", "Feedback_SPA", "all"])
def test_a_task_has_its_sensors_in_bins_of_ten(task, made):
    found = strath(task, folder=made)
    assert found.train.shape == (51, SHORTEST // 10, 3 if task == "all" else 1)
    assert (len(found.test_inliers), len(found.test_anomalies)) == (23, 7)
    assert found.names == (("L_ACTpos", "A_ACTspd", "Feedback_SPA") if task == "all" else (task,))
    assert found.sampling_rate == 10
    assert len(found.files) == 82


def test_the_values_are_the_means_over_the_forging_phase(made):
    lines = (made / "strath" / "Scope0064.csv").read_text("cp1252").splitlines()
    place = {name.strip('"'): n for n, name in enumerate(lines[0].split(","))}
    rows = [line.split(",") for line in lines[1:]]
    position = [float(row[place["L_ACTpos [mm]"]]) for row in rows if float(row[place["Force [kN]"]]) > 0]
    means = [sum(position[start : start + 10]) / 10 for start in range(0, SHORTEST - 9, 10)]
    np.testing.assert_allclose(strath("L_ACTpos", folder=made).test_anomalies[1, :, 0], means)


def test_generated_traces_are_labelled_everywhere(made):
    found = strath("all", folder=made)
    assert found.generated
    assert found.title == "strath/all (generated traces)"
    assert "generated" in found.remarks[0]


def test_only_the_marker_makes_traces_generated(own):
    (own / "strath" / MARKER).unlink()
    found = strath("all", folder=own)
    assert not found.generated
    assert found.title == "strath/all"
    assert found.remarks == ()


def test_recordings_go_by_their_number_and_other_files_do_not_count(own, made):
    for n in range(1, 82):  # without the zeros, the order of the names is not that of the numbers
        (own / "strath" / f"Scope{n:04}.csv").rename(own / "strath" / f"Scope{n}.csv")
    (own / "strath" / "Scope_excerpt.csv").write_text("only a header\n")
    np.testing.assert_array_equal(strath("all", folder=own).train, strath("all", folder=made).train)


@pytest.mark.parametrize(("encoding", "line_end"), [("cp1252", b"\n"), ("utf-8", b"\n"), ("cp1252", b"\r\n")])
def test_encoding_and_line_ends_do_not_matter(encoding, line_end, tmp_path):
    [path] = write_traces(tmp_path, parts=1, encoding=encoding)
    expected = forging_phase(path, SENSORS)
    path.write_bytes(path.read_bytes().replace(b"\n", line_end))
    np.testing.assert_array_equal(forging_phase(path, SENSORS), expected)
    assert expected.shape == (SHORTEST, 3)


def test_the_forging_phase_is_the_longest_with_force(tmp_path):
    path = tmp_path / "Scope0001.csv"
    force = [0, 1, 1, 0, 2, 2, 2, 0, 3, 0]
    path.write_text('"Force [kN]","L_ACTpos [mm]"\n' + "".join(f"{kn},{n}\n" for n, kn in enumerate(force)))
    np.testing.assert_array_equal(forging_phase(path, SENSORS[:1]), [[4], [5], [6]])


def test_a_phase_may_last_to_the_end_of_the_recording(tmp_path):
    path = tmp_path / "Scope0001.csv"
    path.write_text('"Force [kN]","L_ACTpos [mm]"\n0,1\n5,2\n5,3\n')
    np.testing.assert_array_equal(forging_phase(path, SENSORS[:1]), [[2], [3]])


def test_traces_are_cut_to_the_shortest_and_samples_that_fill_no_bin_are_left_out():
    traces = [np.arange(25.0)[:, None], 100 + np.arange(31.0)[:, None]]
    np.testing.assert_array_equal(binned(traces, 10)[..., 0], [[4.5, 14.5], [104.5, 114.5]])


def test_another_bin_size_is_a_setting(made):
    assert strath("all", bin_size=5, folder=made).train.shape == (51, 17, 3)
    with pytest.raises(DataError, match="fewer samples than one bin of 100"):
        strath("all", bin_size=100, folder=made)
    with pytest.raises(ConfigError, match="`bin_size` must be an integer of at least 1, got 0"):
        strath("all", bin_size=0, folder=made)


def test_a_missing_recording_is_reported(own):
    (own / "strath" / "Scope0007.csv").unlink()
    with pytest.raises(DataError, match=r"80 recordings Scope\*\.csv for 81 measured parts"):
        strath("all", folder=own)


def test_a_recording_without_force_is_reported(own):
    path = own / "strath" / "Scope0007.csv"
    path.write_text('"Force [kN]","L_ACTpos [mm]"\n0,1\n0,2\n')
    with pytest.raises(DataError, match=r"Scope0007\.csv: `Force \[kN\]` never rises above 0"):
        strath("L_ACTpos", folder=own)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "no column 'Force .kN.', 'L_ACTpos .mm.' among the 0"),
        ('"Force [kN]"\n1\n', "no column 'L_ACTpos .mm.' among the 1"),
        ('"Force [kN]","L_ACTpos [mm]"\n1,2\n1\n', "Expected 2 columns, got 1"),
        ('"Force [kN]","L_ACTpos [mm]"\n1,2\n1,\n', "a value of `L_ACTpos .mm.` is missing in row 3"),
        ('"Force [kN]","L_ACTpos [mm]"\n1,2\n1,1.#IND\n', "a value of `L_ACTpos .mm.` is missing in row 3"),
        ('"Force [kN]","L_ACTpos [mm]"\n1,2\n1,lost\n', "invalid value 'lost'"),
    ],
)
def test_a_damaged_recording_is_reported_with_its_name_and_place(content, reason, tmp_path):
    path = tmp_path / "Scope0001.csv"
    path.write_text(content)
    with pytest.raises(DataError, match=rf"Scope0001\.csv: .*{reason}"):
        forging_phase(path, SENSORS[:1])


def test_a_spreadsheet_without_the_dimension_or_without_a_value_is_reported(own):
    path = own / "strath" / "CMMData.xlsx"
    path.write_bytes(b"no spreadsheet")
    with pytest.raises(DataError, match=r"CMMData\.xlsx: not a spreadsheet that can be read"):
        deviations(path)
    write_measurements(own / "strath", [])
    with pytest.raises(DataError, match=r'no column "38 dia @200" with measured parts'):
        deviations(path)
