"""A disk on which a failed sync spoils its file: what is written to it later is lost, though syncs report success.

ext4 does so in a file system without room: the blocks that could not be written stay marked as empty.
"""

from __future__ import annotations

from tests.support.disk.faulty_files import FaultyFile, FaultyFiles


class SpoiledFile(FaultyFile):
    def fsync(self) -> None:
        if self._inode.is_spoiled:
            self._inode.dirty.clear()
        try:
            super().fsync()
        except OSError:
            self._inode.is_spoiled = True
            raise


class SpoilingFiles(FaultyFiles):
    file_class = SpoiledFile

    def sync_everything(self, path: str) -> None:
        for each in self.paths():
            inode = self.inode(each)
            if inode.is_spoiled:
                inode.dirty.clear()
        super().sync_everything(path)
