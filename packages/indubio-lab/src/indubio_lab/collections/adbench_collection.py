"""ADBench: tables of many fields with a label for every row (Han et al. 2022).

Any `<data folder>/adbench/*.npz` with X and y is read. Only sets whose checksum is known here are downloaded: a file
that nobody has looked at is not fetched in the background, but put into the folder by hand.
"""

from pathlib import Path

from indubio.io import natural_order
from indubio_lab.collections.collection import Collection, CollectionFile, LabelledTable
from indubio_lab.collections.download import data_folder, fetch, find_local
from indubio_lab.collections.own_tables import read_npz

_HOME = "https://raw.githubusercontent.com/Minqi824/ADBench"
_COMMIT = "f7fed68dea6901fe9a81ed51b251b1d2456790cd"

_KNOWN: dict[str, tuple[str, int]] = {  # sha256 and bytes
    "1_ALOI": ("792d0b5bd1147bfc9574a1974f157b39fbd4cbed8ecd04cf983fd554498ed477", 2_904_730),
    "5_campaign": ("74dd4d0072d6c6f1aabab63bc102f9633454f32bb936fa9bcfbd38f9f2386bcd", 728_999),
    "7_Cardiotocography": ("5ae84910430f05923e11b6f537243263977c9136949dabd891e3570aeec51e29", 37_911),
    "11_donors": ("5824ec854465f2763b4bfe3da1ae9f25ed5433b5c6e265d42e37da4f82a58679", 2_938_691),
    "15_Hepatitis": ("4a87a2f7d8013e5bfde63294fae61ec7a612322de72f338a7f9491749025ad98", 1_644),
    "17_InternetAds": ("bdd8ad5cf5bf2cb96cba53dde30d522d0f6a279083a8e2bc7efbac5981b04385", 78_157),
    "19_landsat": ("ba17e2158c07469597b89db49d3982c874c6b713ff6670721ddc88969da77987", 223_827),
    "21_Lymphography": ("dad977b04f4ea65b78ccd0e9f76b45175bad605165b37e63f3cc177845e67037", 1_895),
    "23_mammography": ("a0308ac9712d78321073b1c2dc98dc37665c0f35c1cc33019416fe8f8d7de7ea", 166_764),
    "25_musk": ("2ed3f4392197b76a1e59116ff880c7720a4b026cf4842073a53b56fdea265017", 736_255),
    "27_PageBlocks": ("10a9b4d5bb5d3b9083caab4c4062f665610eada703c3d927bf7c34b1f2d0d223", 102_998),
    "29_Pima": ("215454bb263a2f040945c9ea7bd7f06f1e89a61a3143bdb6f196e3887e801a7d", 11_023),
    "31_satimage-2": ("1b056e357f801b8b20c3f380a30224a3c4088d7ed764ec5a24828dc9b1918d6f", 181_405),
    "33_skin": ("d02aa01ffc1b6bf2b8b1ac250c90e8a8eacd0cefc962940ed5cc4bf5deac9c95", 618_680),
    "35_SpamBase": ("d0c46c7928e43f6496bcd06e09de0b70f6bc8143792dfa0a43f450263d254e9b", 152_038),
    "37_Stamps": ("99fe739447284f613fa54bf2dccdb51c5120175ce6260adec6dad77576c42509", 20_569),
    "39_vertebral": ("0816286f92b96fe6867664a41a031ac7228dcfbf1a5feefe50ca3883b2e9073d", 4_868),
    "41_Waveform": ("6c9d867337ad1a2f8372c1d27f4c032f0401237e2041b7c45f00de8d319ff30f", 145_028),
    "43_WDBC": ("78d4606a1ab516f5b60b00c196497f3bbd6bd5e4548fd04cf5f2475209b34b85", 46_770),
    "45_wine": ("d5ad8965d92cc57122fe1e6572bb301adbaf795b3e166d187ae00a704d8f6e20", 4_072),
    "47_yeast": ("bbb15c873d78a4f6a589f46d0f75814595e2282d2ae7ce7779c750f276c3770d", 14_707),
}


def _file(name: str) -> CollectionFile:
    sha256, size = _KNOWN[name]
    address = f"{_HOME}/{_COMMIT}/adbench/datasets/Classical/{name}.npz"
    return CollectionFile(path=f"adbench/{name}.npz", sha256=sha256, size=size, addresses=(address,))


ADBENCH_FILES = {name: _file(name) for name in _KNOWN}

ADBENCH = Collection(
    name="adbench",
    title="ADBench, classical tables",
    tasks=tuple(ADBENCH_FILES),
    files=tuple(ADBENCH_FILES.values()),
    sources=("https://github.com/Minqi824/ADBench",),
    licence="BSD 2-Clause for the collection; the originals have their own",
    citation="S. Han, X. Hu, H. Huang, M. Jiang, Y. Zhao (2022). ADBench: Anomaly Detection Benchmark. "
    "NeurIPS Datasets and Benchmarks",
)


def adbench_names(folder: str | Path | None = None) -> list[str]:
    """The sets that are in the local folder, if it has some; else all that can be downloaded."""
    root = data_folder(folder)
    here = [] if root is None else sorted((root / "adbench").glob("*.npz"), key=natural_order)
    return [path.stem for path in here] or list(ADBENCH_FILES)


def adbench_table(name: str, *, folder: str | Path | None = None, progress: bool | None = None) -> LabelledTable:
    """One set, from the local folder or downloaded.

    Args:
        name: of the file without its ending, such as "29_Pima".
        folder: local data folder, by default what INDUBIO_DATA names; what is not there is downloaded.
        progress: show a progress bar for a download, by default on a terminal.
    """
    local = find_local(f"adbench/{name}.npz", folder)
    if local is None:
        ADBENCH.check_task(name)
    return read_npz(local or fetch(ADBENCH_FILES[name], folder=folder, progress=progress))
