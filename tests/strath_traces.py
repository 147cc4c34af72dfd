"""Made-up STRATH traces in the very format of the real files, which are too large to come along.

Not one value is taken from the real recordings; the folder is marked, so that the loader says `generated=True`.
"""

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

from indubio_lab.collections import DIMENSION, FORCE, MARKER, PARTS

# The header of the real files, in order; it repeats "$U_GH_HEATON_1 (U25S0)".
COLUMNS = (
    *("Timer Tick [ms]", "Block-Nr", "Power [kW]", "Force [kN]", "A_ges_vibr", "Schlagzahl [1/min]"),
    *("EXZ_pos [deg]", "hydraulic low pressure [bar]", "hydraulic high pressure [bar]", "A_ACTpos [mm]"),
    *("B_ACTpos [mm]", "DB_ACTpos [mm]", "D_ACTpos [mm]", "L_ACTpos [mm]", "R_ACTpos [mm]", "SBA_ActPos [mm]"),
    *("INDA_ACTpos [deg]", "A_ACT_Force [kN]", "B_ACT_Force [kN]", "DB_ACT_Force [kN]", "D_ACT_Force [kN]"),
    *("L_ACTspd [mm/min]", "R_ACTspd [mm/min]", "SBA_NomPos [mm] [mm]", "INDA_NOMspd [U/min]"),
    *("A_ACTspd [mm/min]", "B_ACTspd [mm/min]", "DB_ACTspd [mm/min]", "D_ACTspd [mm/min]", "L_NOMpos [mm]"),
    *("R_NOMpos [mm]", "SBA_OUT [%]", "INDA_NOMpos [deg]", "A_NOMpos [mm]", "B_NOMpos [mm]", "DB_NOMpos [mm]"),
    *("D_NOMpos [mm]", "L_OUT [%]", "R_OUT [%]", "Feedback SBA [%]", "INDA_OUT [%]", "A_OUT [%]", "B_OUT [%]"),
    *("DB_OUT [%]", "D_OUT [%]", "L_NOMspd [mm/min]", "R_NOMspd [mm/min]", "Frc_Volt", "INDA_ACTspd [U/min]"),
    *("A_NOMspd [mm/min]", "B_NOMspd [mm/min]", "DB_NOMspd [mm/min]", "D_NOMspd [mm/min]", "Feedback L [%]"),
    *("Feedback R [%]", "Speed Vn_1 [rpm]", "NOMforceSPA [kN]", "A_NOM_Force [kN]", "B_NOM_Force [kN]"),
    *("DB_NOM_Force [kN]", "D_NOM_Force [kN]", "$F_F41L (I14S8)", "IP_ActSpd [mm/min]", "IP_ActPos [mm]"),
    *("SPA_OUT [%]", "Feedback A [%]", "Feedback B [%]", "Feedback DB [%]", "Feedback D [%]"),
    *("IP_NomSpd [mm/min]", "IP_NomPos", "Feedback_SPA [%]", "Lub_ActSpd [rpm]", "RamRetract_ActSpd [rpm]"),
    *("Hyd_ActSpd [rpm]", "ForgingBox_Temp", "TMP_Ind_U1 [°C]", "TMP_Ind_F [°C]", "IP_Out [%]"),
    *("ACTforceSPA [kN]", "$U_GH_HEATON_1 (U25S0)", "W2 Durchfluss [l]", "W1 Durchfluss [l]"),
    *("$E_GH_FAULT_2 (I26S21)", "$E_GH_FAULT_1 (I25S21)", "$B12R_Y11 (U14S16)", "L1.R_B41 [bar]", "O_EMERG"),
    *("STP || EM", "O_MASTOP", "c01w", "c02w", "$U_GH_NOMVAL_1 (U25W1)", "$H1P_Y12 (U11S17)"),
    *("$H1P_Y11 (U11S7)", "$U_GH_NOMEXT_2 (U26S1)", "$U_GH_HEATON_2 (U26S0)", "$U_GH_NOMEXT_1 (U25S1)"),
    "$U_GH_HEATON_1 (U25S0)",
)
SWITCHES = {name for name in COLUMNS if name.startswith(("$", "O_", "STP", "c0", "Block"))}
MARKED = "These traces are generated. They are not the STRATH recordings.\n"


def write_traces(
    folder: Path,
    *,
    parts: int = PARTS,
    rows: int = 160,
    shortest: int = 87,
    anomalies: Collection[int] = (),
    filler: bool = True,
    encoding: str = "cp1252",
    seed: int = 0,
) -> list[Path]:
    """Write `parts` recordings of `rows` samples; forging phases have `shortest` to `shortest` + 9 samples.

    Parts in `anomalies` (counted from 1) are forged further to the left, faster and with more feedback. Without
    `filler` the columns that no task reads are 0, for small files. Public scripts read the real files as cp1252; the
    excerpt that is around is UTF-8. The loader must take both.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARKER).write_text(MARKED)
    random = np.random.default_rng(seed)
    paths = []
    for part in range(1, parts + 1):
        # The first part has the shortest phase, so that the length of the windows is known.
        length = shortest + (0 if part == 1 else int(random.integers(10)))
        path = folder / f"Scope{part:04}.csv"
        _write(path, _recording(random, rows, length, part in anomalies, filler), encoding)
        paths.append(path)
    return paths


def write_measurements(folder: Path, deviations: Sequence[float]) -> Path:
    """A made-up CMMData.xlsx: nominal 38 mm, and a part for each deviation."""
    from openpyxl import Workbook

    folder.mkdir(parents=True, exist_ok=True)
    workbook = Workbook()
    sheet = workbook.active
    sheet.append([None, None, None, None, "ID @100", DIMENSION])
    sheet.append([None, None, None, None, 30, 38])
    sheet.append([None, None, None, None, 0.3, 0.4])
    sheet.append([None, None, None, "Part ID", -0.3, -0.4])
    for part, deviation in enumerate(deviations, start=1):
        sheet.append(["31/10/2017", "12:00:00", f"{part + 56:03}", part, 30.0, 38 + deviation])
    workbook.save(folder / "CMMData.xlsx")
    return folder / "CMMData.xlsx"


def _recording(random: np.random.Generator, rows: int, length: int, anomalous: bool, filler: bool) -> list[np.ndarray]:
    start = (rows - length) // 2
    inside = np.zeros(rows, dtype=bool)
    inside[start : start + length] = True
    along = np.clip((np.arange(rows) - start) / length, 0, 1)
    shift = 1.0 if anomalous else 0.0
    noise = 0.05 * random.standard_normal((3, rows))
    signals = {
        "Timer Tick [ms]": 1_000_000 + 10 * np.arange(rows),
        FORCE: np.where(inside, 300 + 50 * random.random(rows), 0.0),
        "L_ACTpos [mm]": 95 - (40 + shift) * along + noise[0],
        "A_ACTspd [mm/min]": np.where(inside, 900 + 60 * shift, 0) * np.sin(np.pi * along) + noise[1],
        "Feedback_SPA [%]": 53 + (5 + shift) * along**2 + noise[2],
    }
    return [signals[name] if name in signals else _other(random, name, rows, filler) for name in COLUMNS]


def _other(random: np.random.Generator, name: str, rows: int, filler: bool) -> np.ndarray:
    if not filler:
        return np.zeros(rows, dtype=np.int64)
    return random.integers(0, 2, rows) if name in SWITCHES else 100 * random.random(rows)


def _write(path: Path, columns: list[np.ndarray], encoding: str) -> None:
    table = pa.table([np.round(values, 7) for values in columns], names=[str(n) for n in range(len(columns))])
    with path.open("wb") as out:
        out.write((",".join(f'"{name}"' for name in COLUMNS) + "\n").encode(encoding))
        csv.write_csv(table, out, csv.WriteOptions(include_header=False))
